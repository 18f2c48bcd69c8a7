-- Asks Coatcheck whether a request may pass: GET /v1/forward-auth with the request's cookies and the proxy's credential. The
-- script needs only HAProxy's own HTTP client. Only a 200 with a session lets the request pass.

local broker = "http://@BROKER@/v1/forward-auth"
local broker_name = "@BROKER_NAME@"
local origin = "@ORIGIN@"
local timeout = @TIMEOUT@ * 1000

-- The file is read at the start, before HAProxy drops its privileges.
local file = assert(io.open("@CREDENTIAL_FILE@"))
local credential = assert(file:read("l"), "the credential's file is empty")
file:close()

local identity = {
    "x-auth-subject", "x-auth-provider", "x-auth-client", "x-auth-session",
    "x-auth-name", "x-auth-email", "x-auth-scope", "x-auth-kind", "x-auth-parent", "x-auth-acr", "x-auth-time", "x-auth-token",
}
-- Paths that need more (docs/backends/demand-a-sign-in.md): a stronger or more recent sign-in, or the user's presence. The
-- first match counts.
local demands = {
    { path = "/payments/confirm", query = "?presence=1" },
    { path = "/payments/", query = "?acr=mfa&max_age=300" },
}
-- The fields of the broker's refusal that are passed to the client.
local passed_on = {
    "content-type", "cache-control", "retry-after", "set-cookie", "www-authenticate", "x-request-id",
    "coatcheck-code", "dpop-nonce",
}
local reasons = {
    [400] = "Bad Request", [401] = "Unauthorized", [403] = "Forbidden", [429] = "Too Many Requests",
    [503] = "Service Unavailable",
}

-- The index of HAProxy's lists begins at 0.
local function list(values)
    local result = {}
    local index = 0
    while values and values[index] do
        result[index + 1] = values[index]
        index = index + 1
    end
    return result
end

local function first(values) return values and values[0] or "" end

local function answer(txn, status, headers, body)
    txn:done(txn:reply { status = status, reason = reasons[status], headers = headers, body = body })
end

local function unavailable(txn)
    answer(txn, 503, {
        ["content-type"] = { "application/problem+json" }, ["cache-control"] = { "no-store" }, ["retry-after"] = { "5" },
    }, '{"type":"urn:coatcheck:problem:store_unavailable","title":"Store unavailable","status":503,'
        .. '"code":"store_unavailable","detail":"Sessions cannot be checked now. Try again later."}')
end

-- Returns the demand for a path and everything below it. Services read paths loosely, so these differences are ignored: upper
-- and lower case, escapes, doubled slashes, dots, and text behind a semicolon.
local function demanded(path)
    local plain = path:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
    local parts = {}
    for part in plain:lower():gsub("\\", "/"):gmatch("[^/]+") do
        part = part:gsub(";.*", "")
        if part == ".." then table.remove(parts) elseif part ~= "." then table.insert(parts, part) end
    end
    plain = "/" .. table.concat(parts, "/") .. "/"
    for _, demand in ipairs(demands) do
        if plain:sub(1, #demand.path) == demand.path then return demand.query end
    end
    return ""
end

local function ask(txn)
    local fields = txn.http:req_get_headers()
    local response = core.httpclient():get {
        url = broker .. demanded(txn.sf:path()),
        timeout = timeout,
        headers = {
            ["host"] = { broker_name },
            ["cookie"] = list(fields["cookie"]),
            ["authorization"] = list(fields["authorization"]),
            -- The evidence of a bound session, and the request that a proof has to name.
            ["coatcheck-pass"] = list(fields["coatcheck-pass"]),
            ["coatcheck-presence"] = list(fields["coatcheck-presence"]),
            ["dpop"] = list(fields["dpop"]),
            ["x-original-method"] = { txn.sf:method() },
            ["x-original-url"] = { origin .. txn.sf:pathq() },
            ["x-coatcheck-backend"] = { credential },
            ["x-forwarded-for"] = { txn.sf:src() },
        },
    }
    return response
end

core.register_action("coatcheck", { "http-req" }, function(txn)
    local asked, response = pcall(ask, txn)
    if not asked or not response or not response.headers then return unavailable(txn) end
    local headers = response.headers
    local status = response.status

    if status == 200 and first(headers["x-auth-session"]):sub(1, 4) == "ses_" then
        for _, name in ipairs(identity) do txn.http:req_set_header(name, first(headers[name])) end
        if first(headers["dpop-nonce"]) ~= "" then txn:set_var("txn.coatcheck_nonce", first(headers["dpop-nonce"])) end
        txn:set_var("txn.coatcheck_allowed", true)
        return
    end
    -- If the broker rejects the proxy's credential, answer 503, because the user cannot correct that.
    local is_stranger = first(headers["www-authenticate"]):find("coatcheck-backend", 1, true)
    -- If the broker is unreachable, HAProxy's client itself returns 503, but without JSON.
    local is_json = first(headers["content-type"]):find("json", 1, true)
    if not reasons[status] or is_stranger or not is_json then return unavailable(txn) end

    local kept = {}
    for _, name in ipairs(passed_on) do
        local values = list(headers[name])
        if #values > 0 then kept[name] = values end
    end
    answer(txn, status, kept, response.body or "")
end)
