#!lua
-- ARGV: name, pin, time of its last use, and in whose place: "GENERATION WORKER BOOT", or nothing.
-- Answers nothing when it is stored; else the pin that somebody else has stored, and its last use.
-- Repeated, it finds its own.
local stored = redis.call('HGET', key('pass_pins'), ARGV[1])
if stored and stored ~= ARGV[2] then
  local pin = cjson.decode(stored)
  if pin.generation .. ' ' .. pin.worker_id .. ' ' .. pin.boot_id ~= ARGV[4] then
    return {stored, redis.call('ZSCORE', key('pass_used'), ARGV[1])}
  end
  redis.call('PUBLISH', key('pass_pins'), ARGV[1])
end
redis.call('HSET', key('pass_pins'), ARGV[1], ARGV[2])
redis.call('ZADD', key('pass_used'), 'GT', ARGV[3], ARGV[1])
return {}
