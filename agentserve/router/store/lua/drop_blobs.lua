#!lua flags=allow-oom
-- ARGV: hash and tenant of each blob in one. Those of which no removal has begun stay.
for _, member in ipairs(ARGV) do
  if redis.call('ZREM', key('blobs_leaving'), member) == 1 then
    local tenant = string.sub(member, 65)
    local sha256 = string.sub(member, 1, 64)
    local size = redis.call('HGET', key('blobs', tenant), sha256)
    redis.call('HDEL', key('blobs', tenant), sha256)
    redis.call('HINCRBY', key('blob_sums'), tenant, 0 - size)
  end
end
