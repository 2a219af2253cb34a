#!lua flags=allow-oom
-- ARGV: time of the last use (exclusive), time of the last try (exclusive), time, limit. Answers
-- what is to be removed: hash and tenant in one. It is out of `blobs_used` from then on.
local names = redis.call('ZRANGE', key('blobs_leaving'), '-inf', '(' .. ARGV[2], 'BYSCORE',
  'LIMIT', 0, ARGV[4])
local unused = redis.call('ZRANGE', key('blobs_used'), '-inf', '(' .. ARGV[1], 'BYSCORE',
  'LIMIT', 0, ARGV[4])
for _, name in ipairs(unused) do
  redis.call('ZREM', key('blobs_used'), name)
  names[#names + 1] = name
end
for _, name in ipairs(names) do
  redis.call('ZADD', key('blobs_leaving'), ARGV[3], name)
end
return names
