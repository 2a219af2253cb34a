#!lua
-- ARGV: tenant, quota, then hash and size of each blob. Answers nothing when one of them is
-- being removed; else whether they are booked, the bytes that the tenant had, and those to be added.
-- Repeated, it finds them booked: the bytes to be added are then none.
local tenant = ARGV[1]
local sizes = key('blobs', tenant)
local used = tonumber(redis.call('HGET', key('blob_sums'), tenant) or 0)
local quota = tonumber(ARGV[2])
local time = now()
local needed = 0
for i = 3, #ARGV, 2 do
  if redis.call('ZSCORE', key('blobs_leaving'), ARGV[i] .. tenant) then
    return {}
  end
  if redis.call('HEXISTS', sizes, ARGV[i]) == 0 then
    needed = needed + ARGV[i + 1]
  end
end
if needed > 0 and quota > 0 and used + needed > quota then
  return {0, used, needed}
end
for i = 3, #ARGV, 2 do
  redis.call('HSETNX', sizes, ARGV[i], ARGV[i + 1])
  redis.call('ZADD', key('blobs_used'), 'GT', time, ARGV[i] .. tenant)
end
redis.call('HINCRBY', key('blob_sums'), tenant, needed)
return {1, used, needed}
