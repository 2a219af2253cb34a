#!lua flags=no-writes
-- ARGV: index, highest place (exclusive, or +inf), limit. Answers whether there are more, and the
-- records.
local limit = tonumber(ARGV[3])
local ids = redis.call('ZRANGE', key(ARGV[1]), ARGV[2], '-inf', 'BYSCORE', 'REV',
  'LIMIT', 0, limit + 1)
local more = table.remove(ids, limit + 1)
return {more and 1 or 0, records(ids)}
