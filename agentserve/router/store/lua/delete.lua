#!lua flags=allow-oom
-- ARGV: id, sender.
local id = ARGV[1]
local tenant = redis.call('HGET', key('session', id), 'tenant')
unindex(id)
if tenant then
  for _, place in ipairs(places('sessions', tenant)) do
    redis.call('ZREM', place, id)
  end
end
redis.call('UNLINK', key('session', id), key('turns', id), key('pieces', id), key('events', id))
tell(ARGV[2], id)
