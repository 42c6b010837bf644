-- trial.lua: which dialect does this server speak? Asked by trying, on a key of our own that goes again, never by the version.
--
--   KEYS[1]  a private key
--
-- Reply: 'native', 'hpexpire' or 'compat'
local key, far = KEYS[1], 32503680000000
local function works(expected, ...)
  local reply = redis.pcall(...)
  return type(reply) == 'table' and not reply.err and reply[1] == expected or reply == expected
end

redis.call('DEL', key)
local native = works(1, 'HSETEX', key, 'PXAT', far, 'FIELDS', 1, 'field', 'value') and
                   works('value', 'HGETEX', key, 'PXAT', far - 1, 'FIELDS', 1, 'field') and
                   works(far - 1, 'HPEXPIRETIME', key, 'FIELDS', 1, 'field')
redis.call('DEL', key)
redis.call('HSET', key, 'field', 'value')
local hpexpire = works(1, 'HPEXPIREAT', key, far, 'FIELDS', 1, 'field') and works(far, 'HPEXPIRETIME', key, 'FIELDS', 1, 'field')
redis.call('DEL', key)
return native and 'native' or hpexpire and 'hpexpire' or 'compat'
