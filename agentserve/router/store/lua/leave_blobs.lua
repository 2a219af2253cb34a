#!lua flags=allow-oom
-- ARGV: seconds since the last use, seconds since a removal has begun, limit. Answers what is to be
-- removed: hash and tenant in one. It is out of `blobs_used` from then on.
local time = now()
local names = redis.call('ZRANGE', key('blobs_leaving'), '-inf', '(' .. time - ARGV[2], 'BYSCORE',
  'LIMIT', 0, ARGV[3])
local unused = redis.call('ZRANGE', key('blobs_used'), '-inf', '(' .. time - ARGV[1], 'BYSCORE',
  'LIMIT', 0, ARGV[3])
for _, name in ipairs(unused) do
  redis.call('ZREM', key('blobs_used'), name)
  names[#names + 1] = name
end
for _, name in ipairs(names) do
  redis.call('ZADD', key('blobs_leaving'), time, name)
end
return names
