#!lua
-- ARGV[1]: the change as JSON. Answers 0 when the stored version is another one, or the session is
-- gone; 1 also when this very write was done before and only its answer was lost.
local new = cjson.decode(ARGV[1])
local session = key('session', new.id)
local stored = redis.call('HMGET', session, 'version', 'token', 'n')
if stored[2] == new.token then
  return 1
end
if stored[1] ~= new.version then
  return 0
end
-- First, since it is refused when the epoch is not behind the last one: a script has no rollback.
local turn = new.turn
if turn then
  local place = turn.epoch .. '-1'
  redis.call('XADD', key('turns', new.id), place, 'key', turn.key, 'result', turn.result)
  redis.call('XADD', key('pieces', new.id), place, 'pieces', turn.pieces)
  if turn.held then
    redis.call('HSET', session, 'held', turn.held)
    redis.call('HDEL', session, 'forked')
  end
end
redis.call('HINCRBY', session, 'version', 1)
unindex(new.id)
put(new, stored[3])
add_events(new.id, new.events)
tell(new.sender, new.id)
return 1
