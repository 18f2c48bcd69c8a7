-- Asks Coatcheck whether a request may pass: GET /v1/forward-auth with the request's cookies and the proxy's credential. Needs
-- lua-socket. The script runs in the access phase. Only a 200 with a session lets the request pass.

require "apache2"
local http = require "socket.http"
local socket = require "socket"
local ltn12 = require "ltn12"

local broker = "http://@BROKER@/v1/forward-auth"
local broker_name = "@BROKER_NAME@"
local origin = "@ORIGIN@"
local timeout = @TIMEOUT@

-- The file is read once in each Lua state, so Apache's user must be able to read it.
local file = assert(io.open("@CREDENTIAL_FILE@"))
local credential = assert(file:read("l"), "the credential's file is empty")
file:close()

local identity = {
    "X-Auth-Subject", "X-Auth-Provider", "X-Auth-Client", "X-Auth-Session",
    "X-Auth-Name", "X-Auth-Email", "X-Auth-Scope", "X-Auth-Kind", "X-Auth-Parent", "X-Auth-Acr", "X-Auth-Time", "X-Auth-Token",
}
-- The fields of the broker's refusal that are passed to the client.
local passed_on = { "Cache-Control", "Retry-After", "WWW-Authenticate", "X-Request-Id", "Coatcheck-Code", "DPoP-Nonce" }
local refusals = { [400] = true, [401] = true, [403] = true, [429] = true, [503] = true }

local function answer(r, status, headers, body)
    r.status = status
    r.content_type = "application/problem+json"
    for name, value in pairs(headers) do r.err_headers_out[name] = value end
    r:puts(body)
    -- Otherwise Apache would replace the status by its own.
    r:flush()
    return apache2.DONE
end

local function unavailable(r)
    return answer(r, 503, { ["Cache-Control"] = "no-store", ["Retry-After"] = "5" },
        '{"type":"urn:coatcheck:problem:store_unavailable","title":"Store unavailable","status":503,'
        .. '"code":"store_unavailable","detail":"Sessions cannot be checked now. Try again later."}')
end

-- Removes the client's own copies of headers that only this proxy may set, in every spelling that a server may accept.
local function strip(r)
    for name in pairs(r:headers_in_table()) do
        local plain = name:lower():gsub("[^a-z0-9]", "-")
        if plain:find("^x%-auth%-") or plain:find("^x%-coatcheck%-") then r.headers_in[name] = nil end
        if (plain == "coatcheck-pass" or plain == "coatcheck-presence") and name:lower() ~= plain then r.headers_in[name] = nil end
    end
    -- Apache removes the fields that Connection names, including the broker's. A service needs only "upgrade".
    local connection = r.headers_in["Connection"]
    if connection then
        local wanted = {}
        for option in connection:lower():gmatch("[^,%s]+") do
            if option == "close" or option == "keep-alive" or option == "upgrade" then wanted[#wanted + 1] = option end
        end
        r.headers_in["Connection"] = #wanted > 0 and table.concat(wanted, ", ") or nil
    end
end

local function ask(r)
    local deadline = socket.gettime() + timeout
    local received = {}
    local size = 0
    local worked, status, headers = http.request {
        -- The path's demands on the sign-in, which apache.conf sets and no client can change.
        url = broker .. (r.subprocess_env["coatcheck_demand"] or ""),
        redirect = false,
        headers = {
            ["Host"] = broker_name,
            ["Cookie"] = r.headers_in["Cookie"],
            ["Authorization"] = r.headers_in["Authorization"],
            -- The evidence of a bound session, and the request that a proof has to name.
            ["Coatcheck-Pass"] = r.headers_in["Coatcheck-Pass"],
            ["Coatcheck-Presence"] = r.headers_in["Coatcheck-Presence"],
            ["DPoP"] = r.headers_in["DPoP"],
            ["X-Original-Method"] = r.method,
            ["X-Original-URL"] = origin .. r.unparsed_uri:gsub("^%a[%w+.-]*://[^/?]*", ""),
            ["X-Coatcheck-Backend"] = credential,
            ["X-Forwarded-For"] = r.useragent_ip,
        },
        -- The limits are for the time and the size of the whole answer. A limit for each read would not be enough.
        create = function()
            local tcp = socket.tcp()
            tcp:settimeout(timeout, "t")
            return tcp
        end,
        sink = function(chunk)
            if not chunk then return 1 end
            size = size + #chunk
            if size > 65536 or socket.gettime() > deadline then return nil, "too much" end
            received[#received + 1] = chunk
            return 1
        end,
    }
    if not worked then return nil end
    return status, headers, table.concat(received)
end

local function decide(r)
    strip(r)
    local status, headers, body = ask(r)
    if not status or not headers then return unavailable(r) end

    if status == 200 and (headers["x-auth-session"] or ""):sub(1, 4) == "ses_" then
        for _, name in ipairs(identity) do r.headers_in[name] = headers[name:lower()] or "" end
        r.err_headers_out["DPoP-Nonce"] = headers["dpop-nonce"]
        return apache2.OK
    end
    -- If the broker rejects the proxy's credential, answer 503, because the user cannot correct that.
    local is_stranger = (headers["www-authenticate"] or ""):find("coatcheck-backend", 1, true)
    local is_json = (headers["content-type"] or ""):find("json", 1, true)
    if not refusals[status] or is_stranger or not is_json then return unavailable(r) end

    local kept = {}
    for _, name in ipairs(passed_on) do kept[name] = headers[name:lower()] end
    -- LuaSocket joins the cleared cookies into one field, but a table of Apache has only one value for each name. So each
    -- cookie is set in another table.
    local cookie, pass = (headers["set-cookie"] or ""):match("^(.-), ([%w_-]+=.*)$")
    kept["Set-Cookie"] = cookie or headers["set-cookie"]
    r.headers_out["Set-Cookie"] = pass
    return answer(r, status, kept, body)
end

function check(r)
    local decided, result = pcall(decide, r)
    return decided and result or 503
end
