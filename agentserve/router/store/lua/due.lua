#!lua flags=no-writes
-- ARGV: index, time, limit.
return records(redis.call('ZRANGE', key(ARGV[1]), '-inf', ARGV[2], 'BYSCORE', 'LIMIT', 0, ARGV[3]))
