#!lua flags=allow-oom
-- ARGV: time (exclusive), limit. Answers the names that were dropped.
local names = redis.call('ZRANGE', key('pass_used'), '-inf', '(' .. ARGV[1], 'BYSCORE',
  'LIMIT', 0, ARGV[2])
for _, name in ipairs(names) do
  redis.call('HDEL', key('pass_pins'), name)
  redis.call('ZREM', key('pass_used'), name)
  redis.call('PUBLISH', key('pass_pins'), name)
end
return names
