#!lua flags=no-writes
-- ARGV: worker, boot id, limit. Members of the index are worker, boot id and session, with \0
-- between them; those of the boot id are skipped, of an empty one none.
local worker = ARGV[1] .. '\0'
local boot = worker .. ARGV[2]
local limit = tonumber(ARGV[3])
local ids = {}

local function walk(first, last)
  local members = redis.call('ZRANGE', key('pinned'), first, last, 'BYLEX',
    'LIMIT', 0, limit - #ids)
  for _, member in ipairs(members) do
    ids[#ids + 1] = string.match(member, '[^%z]*$')
  end
end

walk('[' .. worker, '(' .. boot .. '\0')
walk('[' .. boot .. '\1', '(' .. ARGV[1] .. '\1')
return records(ids)
