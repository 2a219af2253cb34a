#!lua
-- ARGV[1]: the new session as JSON. Answers 0 when the id is taken or the parent is another one by
-- now; 1 also when this very write was done before and only its answer was lost.
local new = cjson.decode(ARGV[1])
local session = key('session', new.id)
local token = redis.call('HGET', session, 'token')
if token then
  return token == new.token and 1 or 0
end
if new.parent then
  local parent = key('session', new.parent.id)
  if redis.call('HGET', parent, 'version') ~= new.parent.version then
    return 0
  end
  redis.call('COPY', key('turns', new.parent.id), key('turns', new.id))
  redis.call('COPY', key('pieces', new.parent.id), key('pieces', new.id))
  local held = redis.call('HGET', parent, 'held')
  if held then
    redis.call('HSET', parent, 'forked', 1)
    redis.call('HSET', session, 'held', held, 'forked', 1)
  end
end
local n = redis.call('INCR', key('created'))
redis.call('HSET', session, 'version', 0, 'n', n)
for _, place in ipairs(places('sessions', new.tenant)) do
  redis.call('ZADD', place, n, new.id)
end
put(new, n)
add_events(new.id, new.events)
tell(new.sender, new.id)
return 1
