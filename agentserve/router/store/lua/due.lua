#!lua flags=no-writes
-- ARGV: time, limit.
return records(redis.call('ZRANGE', key('due'), '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2]))
