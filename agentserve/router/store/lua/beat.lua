#!lua flags=allow-oom
-- ARGV: router, seconds. With the memory used up, too, a router must not look dead to the others.
local time = now()
redis.call('ZREMRANGEBYSCORE', key('routers'), '-inf', time)
redis.call('ZADD', key('routers'), time + tonumber(ARGV[2]), ARGV[1])
