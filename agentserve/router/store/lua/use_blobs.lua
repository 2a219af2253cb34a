#!lua flags=allow-oom
-- ARGV: tenant, then the hash of each blob. Answers their sizes, '' for an unknown one.
local time = now()
local found = {}
for i = 2, #ARGV do
  local member = ARGV[i] .. ARGV[1]
  local size = redis.call('HGET', key('blobs', ARGV[1]), ARGV[i])
  if size and not redis.call('ZSCORE', key('blobs_leaving'), member) then
    redis.call('ZADD', key('blobs_used'), 'XX', 'GT', time, member)
    found[#found + 1] = size
  else
    found[#found + 1] = ''
  end
end
return found
