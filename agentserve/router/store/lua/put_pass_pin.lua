#!lua
-- ARGV: name, pin, time of its last use.
redis.call('HSET', key('pass_pins'), ARGV[1], ARGV[2])
redis.call('ZADD', key('pass_used'), ARGV[3], ARGV[1])
