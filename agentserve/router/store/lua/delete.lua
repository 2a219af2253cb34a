#!lua flags=allow-oom
-- ARGV: id, sender.
local id = ARGV[1]
unindex(id)
redis.call('ZREM', key('sessions'), id)
redis.call('UNLINK', key('session', id), key('turns', id), key('pieces', id), key('events', id))
tell(ARGV[2], id)
