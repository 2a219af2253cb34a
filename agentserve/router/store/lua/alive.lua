#!lua flags=no-writes
return redis.call('ZRANGE', key('routers'), now(), '+inf', 'BYSCORE')
