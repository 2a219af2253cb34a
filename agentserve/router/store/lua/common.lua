-- Put behind the first line of every script. All keys begin with KEYS[1]; its hash tag keeps them in
-- one slot, so that a script may name keys that it was not given.
local root = KEYS[1]

local function key(kind, id)
  if id then
    return root .. ':' .. kind .. ':' .. id
  end
  return root .. ':' .. kind
end

-- What a reader gets of each session.
local function records(ids)
  local found = {}
  for i, id in ipairs(ids) do
    found[i] = redis.call('HMGET', key('session', id), 'record', 'version', 'n')
  end
  return found
end

-- Seconds since the epoch by this server's clock, the one that all routers share.
local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1e6
end

-- Indexes of all sessions come twice: everybody's, and those of each tenant.
local function places(name, tenant)
  return {key(name), key(name) .. ':of:' .. tenant}
end

-- The indexes: `sessions` and `status:*` by creation, `due` by deadline, `closed` by when
-- that was, `pinned` by worker and
-- boot id, `pins` and `held` with the number of open sessions of each worker and their tokens. A
-- session's hash repeats what it is indexed under, so that it can be taken out again.
local function unindex(id)
  local old = redis.call('HMGET', key('session', id),
    'status', 'worker', 'pinned', 'tokens', 'tenant')
  if not old[1] then
    return
  end
  for _, place in ipairs(places('status:' .. old[1], old[5])) do
    redis.call('ZREM', place, id)
  end
  redis.call('ZREM', key('due'), id)
  redis.call('ZREM', key('closed'), id)
  if old[3] ~= '' then
    redis.call('ZREM', key('pinned'), old[3])
    redis.call('ZINCRBY', key('pins'), -1, old[2])
    redis.call('ZREMRANGEBYSCORE', key('pins'), '-inf', 0)
    redis.call('HINCRBY', key('held'), old[2], 0 - old[4]) -- not -old[4], which may be -0
  end
end

-- Stores the record and its place in the indexes; `due`, of the index `due_in`, and `pinned` are
-- empty for none.
local function put(new, n)
  redis.call('HSET', key('session', new.id), 'record', new.record, 'token', new.token,
    'status', new.status, 'worker', new.worker, 'pinned', new.pinned, 'tokens', new.tokens,
    'tenant', new.tenant)
  for _, place in ipairs(places('status:' .. new.status, new.tenant)) do
    redis.call('ZADD', place, n, new.id)
  end
  if new.due ~= '' then
    redis.call('ZADD', key(new.due_in), new.due, new.id)
  end
  if new.pinned ~= '' then
    redis.call('ZADD', key('pinned'), 0, new.pinned)
    redis.call('ZINCRBY', key('pins'), 1, new.worker)
    redis.call('HINCRBY', key('held'), new.worker, new.tokens)
  end
end

local function add_events(id, events)
  for _, event in ipairs(events) do
    local seq = redis.call('HINCRBY', key('session', id), 'last_seq', 1)
    redis.call('XADD', key('events', id), seq .. '-0',
      'type', event.type, 'at', event.at, 'data', event.data)
  end
end

local function tell(sender, id)
  redis.call('PUBLISH', key('changes'), sender .. ' ' .. id)
end
