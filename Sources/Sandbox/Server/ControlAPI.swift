import Hummingbird

/// `/_sandbox`: the control API.
///
/// Tests use it to configure the sandbox and read its records.
///
/// `docs/apps/sandbox.md` describes it.
struct ControlAPI {
    let state: SandboxState

    func handle(method: String, path: String, query: Pairs, body: [UInt8]) async -> Response {
        let segments = path.split(separator: "/").dropFirst().map { FormCoding.decode($0) }
        let first = segments.first ?? ""
        let json = body.isEmpty ? JSON.object([]) : try? JSON.parse(body)
        guard let json else { return refused("malformed JSON") }
        let sandbox = SandboxControl(state: state)
        switch (method, first, segments.count) {
        case ("PUT", "faults", 2): return put(faults: json, provider: segments[1])
        case ("GET", "faults", 1): return .json(.array(state.with { $0.faults }.map(\.json)))
        case ("DELETE", "faults", 1), ("DELETE", "faults", 2):
            sandbox.clearFaults(provider: segments.count > 1 ? segments[1] : nil)
            return .empty(204)
        case ("GET", "requests", 1):
            return .json(
                .array(sandbox.requests(provider: query["provider"], endpoint: query["endpoint"]).map(\.json)))
        case ("DELETE", "requests", 1):
            sandbox.clearRequests()
            return .empty(204)
        case ("GET", "counts", 1):
            let counts = state.with { $0.counts }.sorted { $0.key < $1.key }
            return .json(.object(counts.map { .init(name: $0.key, value: .int($0.value)) }))
        case ("PUT", "users", 2):
            sandbox.set(user: segments[1], json)
            return .json(state.user(segments[1]).json)
        case ("GET", "users", 2): return .json(state.user(segments[1]).json)
        case ("PUT", "clients", 3):
            sandbox.set(client: segments[2], of: segments[1], json)
            return .empty(204)
        case ("PUT", "settings", 2):
            guard let provider = Catalogue.named(segments[1]) else { return refused("unknown provider", 404) }
            sandbox.set(settings: json, of: segments[1])
            return .json(state.settings(of: provider).json)
        case ("GET", "settings", 2):
            guard let provider = Catalogue.named(segments[1]) else { return refused("unknown provider", 404) }
            return .json(state.settings(of: provider).json)
        case ("DELETE", "settings", 2):
            state.with { $0.settings[segments[1]] = nil }
            return .empty(204)
        case ("GET", "modules", 1): return .json(.array(FAPI2Module.all.map { .string($0.name) }))
        case ("PUT", "modules", 2): return play(json, at: segments[1], sandbox)
        case ("POST", "rotate-keys", 2):
            state.keys.rotate(segments[1], keepOld: json["keep_old"]?.flag ?? false)
            return .empty(204)
        case ("POST", "clock", 1):
            sandbox.advanceClock(seconds: Settings(json: json).seconds("advance"))
            return .json(["now": .raw(String(state.now))])
        case ("POST", "native-code", 2): return await nativeCode(json, provider: segments[1])
        case ("POST", "native-id-token", 2): return await nativeIDToken(json, provider: segments[1])
        case ("POST", "legacy-token", 2): return legacyToken(json, provider: segments[1])
        case ("POST", "backchannel-logout", 1): return await logout(json)
        case ("POST", "revoke", 1):
            return .json([
                "revoked": .int(sandbox.revokeGrants(provider: json["provider"]?.text, user: json["user"]?.text))
            ])
        case ("POST", "reset", 1):
            sandbox.reset()
            return .empty(204)
        case ("GET", "tokens", 1): return tokens(query["provider"])
        case ("GET", "client-key.pem", 1):
            return .text(state.clientKey.pem + "\n", headers: [("X-Key-Id", state.clientKey.id)])
        case ("GET", "client-key.json", 1): return .json(state.clientKey.publicJWK)
        case ("GET", "health", 1), ("GET", "", 0): return .json(["ok": true])
        default: return refused("no such control", 404)
        }
    }

    private func refused(_ text: String, _ status: Int = 400) -> Response {
        .json(["error": .string(text)], status: status)
    }

    /// Configures the provider for a module of the FAPI 2.0 client plan, by its `testName` and the variant's
    /// `sender_constrain`.
    private func play(_ json: JSON, at provider: String, _ sandbox: SandboxControl) -> Response {
        guard Catalogue.named(provider) is any AuthorizationServer else { return refused("unknown provider", 404) }
        guard let module = json["module"]?.text.flatMap(FAPI2Module.named) else { return refused("no such module") }
        guard let constraint = FAPI2Module.Constraint(rawValue: json["sender_constrain"]?.text ?? "dpop") else {
            return refused("sender_constrain is dpop or mtls")
        }
        return .json(["module": .string(module.name), "applies": .bool(module.play(at: provider, constraint, sandbox))])
    }

    /// Adds the fault in the body.
    ///
    /// If the body is an array, its faults replace all faults of the provider.
    private func put(faults json: JSON, provider: String) -> Response {
        let wanted = json.elements ?? [json]
        let parsed = wanted.compactMap { Fault(provider: provider, json: $0) }
        guard parsed.count == wanted.count else { return refused("a fault needs a name under fault") }
        let sandbox = SandboxControl(state: state)
        if json.elements != nil { sandbox.clearFaults(provider: provider) }
        do {
            for fault in parsed { try sandbox.place(fault) }
        } catch {
            return refused("unknown: \(error.name)")
        }
        return .json(.array(parsed.map(\.json)))
    }

    /// Issues a code in the form of a native SDK, which has no redirect URI.
    private func nativeCode(_ json: JSON, provider name: String) async -> Response {
        guard let server = Catalogue.named(name) as? any AuthorizationServer, let client = json["client_id"]?.text
        else {
            return refused("provider or client_id")
        }
        let settings = state.settings(of: server)
        let grant = Grant(
            id: Random.token("g-", bytes: 12), provider: name, clientID: client, user: json["user"]?.text ?? "ana",
            scope: json["scope"]?.text ?? "openid email profile", nonce: json["nonce"]?.text,
            authenticatedAt: state.now, sid: Random.token("sid-"), extras: [:])
        let code = Random.token("c-")
        let issued = IssuedCode(
            grant: grant.id, redirectURI: nil, challenge: json["code_challenge"]?.text,
            expiresAt: state.now + settings.seconds("code_lifetime"))
        state.with { storage in
            storage.grants[grant.id] = grant
            storage.codes[code] = issued
        }
        return .json(["code": .string(code)])
    }

    /// Issues an id_token in the form of a native SDK, which comes without an access token.
    private func nativeIDToken(_ json: JSON, provider name: String) async -> Response {
        do {
            let token = try await NativeIDToken(state: state).issue(json, provider: name)
            return .json(["id_token": .string(token)])
        } catch {
            return refused("\(error)")
        }
    }

    private func logout(_ json: JSON) async -> Response {
        do {
            let result = try await BackchannelLogout(state: state).send(json)
            return .json(result)
        } catch {
            return refused("\(error)")
        }
    }

    /// Issues a legacy token of Clover (before October 2023), which has neither an expiry nor a refresh token.
    private func legacyToken(_ json: JSON, provider name: String) -> Response {
        guard name == "clover", let client = json["client_id"]?.text else { return refused("provider or client_id") }
        let user = json["user"]?.text ?? "ana"
        return .json([
            "access_token": .string(SandboxControl(state: state).legacyToken(clientID: client, user: user)),
            "merchant_id": .string(state.user(user)["merchant_id"] ?? ""),
        ])
    }

    private func tokens(_ provider: String?) -> Response {
        let now = state.now
        let items = state.with { storage -> [JSON] in
            var out: [JSON] = []
            func add(_ token: String, _ kind: String, _ grantID: String, _ expiresAt: Double, _ spent: Bool) {
                guard let grant = storage.grants[grantID], provider == nil || grant.provider == provider else { return }
                out.append([
                    "kind": .string(kind), "token": .string(token), "provider": .string(grant.provider),
                    "client_id": .string(grant.clientID), "user": .string(grant.user), "grant": .string(grantID),
                    "sid": .string(grant.sid), "expires_at": .raw(String(expiresAt)),
                    "live": .bool(!grant.revoked && !spent && expiresAt > now),
                ])
            }
            for (token, access) in storage.accessTokens {
                add(token, "access_token", access.grant, access.expiresAt, false)
                guard !access.audience.isEmpty, var last = out.popLast() else { continue }
                if last["token"]?.text == token {
                    last["audience"] = .array(access.audience.map { .string($0) })
                    last["scope"] = .string(access.scope)
                }
                out.append(last)
            }
            for (token, refresh) in storage.refreshTokens {
                add(token, "refresh_token", refresh.grant, refresh.expiresAt, refresh.spent)
            }
            return out
        }
        return .json(.array(items))
    }
}
