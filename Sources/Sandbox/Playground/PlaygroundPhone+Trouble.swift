/// Simulates the troubles of the switches, and shows what the user has noticed of each.
extension PlaygroundPhone {
    /// Simulates the trouble of a switch.
    ///
    /// Returns false in two cases: the phone is busy; or the switch needs something that is missing now.
    func makeTrouble(_ trouble: TroubleSwitch) async -> Bool {
        if trouble == .killProvider { return await toggleProviders() }
        if trouble.needsSession, screen.view != .session { return false }
        if trouble.needsRefreshing, screen.session["tokens"]?["refreshable"]?.flag != true { return false }
        if trouble.needsPayments, screen.provider?.hasPayments != true { return false }
        if trouble.needsKey, !isBound { return false }
        if trouble.needsShop, screen.provider?.hasShop != true { return false }
        if trouble.needsOldApp, screen.view != .oldApp { return false }
        return await perform(trouble.title) { phone in
            phone.conversation.note(trouble.title + ". " + trouble.explanation, tone: .warning)
            phone.notice("", "")
            switch trouble {
            case .expireToken: await phone.expireToken()
            case .dropAnswer: await phone.dropAnswer()
            case .loseMove: await phone.loseMove()
            case .killProvider: break
            case .fiftyForwards: await phone.forwardFiftyTimes()
            case .stealCode: await phone.stealCode()
            case .stealCookie: await phone.stealCookie()
            case .stealAddress: await phone.stealAddress()
            case .stealRefreshToken: await phone.stealRefreshToken()
            case .ignoreStepUp: await phone.ignoreStepUp()
            case .stealPresence: await phone.stealPresence()
            case .logOutElsewhere: await phone.logOutElsewhere()
            case .killBroker: await phone.killBroker()
            }
        }
    }

    func notice(_ noticed: String, _ explanation: String) {
        screen.noticed = noticed
        screen.explanation = explanation
        if !noticed.isEmpty { screen.notices += 1 }
    }

    /// Returns a sentence about what the user has noticed of a finished call.
    private func noticed(_ outcome: Outcome) -> String {
        guard screen.view == .session else { return "“\(screen.message)”" }
        guard outcome.answer?.status == 200 else { return "That the API did not answer; they are still signed in." }
        return outcome.tries > 1 ? Self.pause(outcome.waited) : "Nothing."
    }

    /// Returns a sentence about a pause that the user has noticed.
    static func pause(_ waited: Duration) -> String {
        let tenths = Int((waited / .milliseconds(100)).rounded())
        return "Nothing but a pause of \(tenths / 10).\(tenths % 10) s."
    }

    private func expireTokens() {
        let provider = screen.provider?.name ?? ""
        state.with { storage in
            for (token, access) in storage.accessTokens where storage.grants[access.grant]?.provider == provider {
                storage.accessTokens[token]?.expiresAt = 0
            }
        }
    }

    private func expireToken() async {
        expireTokens()
        let outcome = await callAPI()
        notice(
            noticed(outcome),
            "The API said 401. The broker refreshed the tokens, once for whoever waits, and called again.")
    }

    private func dropAnswer() async {
        let provider = screen.provider?.name ?? ""
        let control = SandboxControl(state: state)
        let before = state.with { $0.settings[provider] }
        if provider == "oidc" { control.set(settings: ["refresh_mode": "overlap"], of: provider) }
        try? control.place(Fault(provider: provider, endpoint: "refresh", "drop-after", times: 1))
        expireTokens()
        let outcome = await callAPI()
        state.with { $0.settings[provider] = before }
        let why =
            switch provider {
            case "cloudentity": "The broker asked again with the same idempotency key, and got the same answer."
            case "clover": "The broker traded the spent refresh token for a new pair, by Clover's recovery call."
            default: "The broker asked once more; this provider takes the old refresh token again for a moment."
            }
        notice(
            noticed(outcome),
            why + " Where a provider allows none of that, such a session is lost, and says so (refresh_lost).")
    }

    /// Switches off the endpoints of all providers, or switches them on again; the APIs behind the relay continue.
    private func toggleProviders() async -> Bool {
        let control = SandboxControl(state: state)
        screen.providersAreDown.toggle()
        guard screen.providersAreDown else {
            for provider in PlaygroundProvider.all where !provider.isBound {
                control.clearFaults(provider: provider.name)
            }
            conversation.note("The providers are back.", tone: .good)
            notice("Nothing.", "The providers answer again.")
            return true
        }
        for provider in PlaygroundProvider.all where !provider.isBound {
            for endpoint in provider.endpoints {
                try? control.place(Fault(provider: provider.name, endpoint: endpoint, "drop-before"))
            }
        }
        conversation.note("Kill the provider. " + TroubleSwitch.killProvider.explanation, tone: .warning)
        guard screen.view == .session else {
            notice("Nothing yet.", "A sign-in has to wait now; who is signed in stays so.")
            return true
        }
        notice("", "")
        _ = await perform("Calling the API") { phone in
            let outcome = await phone.callAPI()
            phone.notice(
                phone.noticed(outcome),
                "Still signed in: the access token is good for a while. When it ends, calls wait (503, Retry-After) until "
                    + "the provider is back; nobody is signed out for it. Try “Expire the token” now, then revive it.")
        }
        return true
    }

    private func forwardFiftyTimes() async {
        let provider = (screen.provider ?? PlaygroundProvider.all[0]).unbound
        stopListening()
        guard let callback = await callback(provider, jar: jar) else { return }
        let endpoint = provider.name == "zephr" ? "zephr/account" : provider.name + "/token"
        let before = state.with { $0.counts[endpoint] ?? 0 }
        var request = Self.forwarding(callback, jar: jar)
        request.isRecorded = false
        let sent = request
        let curl = CurlLine(
            method: "POST", base: "BROKER", target: sent.target, headers: sent.headers, body: sent.body, jar: "jar.txt")
        conversation.append(
            ConversationMessage(
                kind: .request, from: .app, to: .broker, who: "× 50", title: "POST /v1/sessions",
                details: "Fifty at once:\n\n"
                    + MessageText.request("POST", sent.target, headers: sent.headers, body: sent.body),
                curl: "for n in $(seq 50); do \(curl.text) & done; wait"))
        let caller = caller
        let answers = await withTaskGroup(of: PlaygroundAnswer?.self) { group in
            for _ in 0..<50 { group.addTask { try? await caller.send(sent) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let good = answers.compactMap { $0 }.filter { $0.status == 201 }
        let sessions = Set(good.compactMap { $0.json["handle"]?.text })
        conversation.append(
            ConversationMessage(
                kind: .answer, from: .broker, to: .app, who: "× \(good.count)",
                title: "201 Created, \(sessions.count == 1 ? "one session" : "\(sessions.count) sessions")",
                tone: good.count == 50 ? .good : .bad,
                details: good.first.map { MessageText.answer($0.status, headers: $0.headers, body: $0.body) } ?? ""))
        screen.provider = provider
        settle(Outcome(answer: good.first, tries: 1))
        let calls = state.with { $0.counts[endpoint] ?? 0 } - before
        notice(
            good.count == 50 && sessions.count == 1 ? "Nothing." : "Something is wrong: \(good.count) of 50.",
            "Fifty answers 201 with \(sessions.count) session; \(calls) call at the provider. A code is redeemed once.")
    }

    private func stealCode() async {
        let provider = screen.provider ?? PlaygroundProvider.all[0]
        stopListening()
        guard let callback = await callback(provider, jar: jar) else { return }
        let attempt = try? await caller.send(
            Self.forwarding(callback, jar: CookieJar(), who: "thief", device: "Somebody else's"))
        screen.provider = provider
        let thief =
            "The thief got \(attempt?.status ?? 0) \(attempt?.code ?? ""): what came back is worth nothing without "
            + "the login cookie of the phone that began."
        var outcome = await forward(callback, jar: jar)
        guard let status = outcome.answer?.status, status != 201, status != 202 else {
            settle(outcome)
            return notice("Nothing.", thief)
        }
        // The broker has refused the phone's callback, because the thief's attempt burned the login. An app must then start
        // exactly one new login (docs/apps/native-apps.md).
        guard let again = await self.callback(provider, jar: jar) else { return }
        outcome = await forward(again, jar: jar)
        settle(outcome)
        notice(
            "The browser, coming up a second time.",
            thief + " That login is burned, so the app began another by itself.")
    }

    private func stealCookie() async {
        guard let copy = copied(from: jar) else { return }
        let attempt = await look(copy)
        thief = copy
        screen.cookieIsStolen = true
        if let provider = screen.provider, provider.isBound { return await tryBoundCookie(copy, attempt, provider) }
        notice(
            "Nothing, and the thief is in.",
            "The thief got \(attempt?.status ?? 0): whoever has the cookie is the user until the session ends. So it is "
                + "HttpOnly, Secure and SameSite=Strict over https, and stands in no log or database; and it can be ended. "
                + "Sign out, and see what the thief gets then.")
    }

    /// Returns a jar for a thief, with only the session cookie of another jar.
    private func copied(from jar: CookieJar) -> CookieJar? {
        guard let session = jar.session else { return nil }
        let copy = CookieJar()
        copy.take(session.name + "=" + session.value)
        return copy
    }

    private func look(_ copy: CookieJar, proof: String? = nil) async -> PlaygroundAnswer? {
        var request = PlaygroundRequest(to: .broker, target: "/v1/session", jar: copy, who: "thief")
        if let proof { request.headers.append(("DPoP", proof)) }
        let answer = try? await caller.send(request)
        if let next = answer?.header("DPoP-Nonce") { nonce = next }
        return answer
    }

    /// Tries the copied cookie of a bound session and, for comparison, the copied cookie of an unbound session.
    private func tryBoundCookie(_ copy: CookieJar, _ alone: PlaygroundAnswer?, _ provider: PlaygroundProvider) async {
        let request = PlaygroundRequest(to: .broker, target: "/v1/session", jar: copy)
        let forged = await look(copy, proof: proof(of: request).byAnotherKey())
        conversation.note("Beside it: the cookie of a tablet, whose session belongs to no key.", tone: .warning)
        let beside = await tryUnboundCookie(provider)
        notice(
            alone?.status == 401 && forged?.status == 401
                ? "Nothing, and the thief gets nothing." : "Nothing, and the thief is in.",
            "The copied cookie got \(said(alone)), with a proof by the thief's own key \(said(forged)): the session "
                + "belongs to a key that this browser cannot give away. " + beside)
    }

    private func tryUnboundCookie(_ provider: PlaygroundProvider) async -> String {
        guard let tablet = await signInTablet(provider), let copy = copied(from: tablet) else {
            return "The tablet, whose cookie was to be copied beside it, could not sign in."
        }
        let attempt = await look(copy)
        return "A tablet's cookie, whose session belongs to no key, got \(said(attempt))"
            + (attempt?.status == 200 ? ": there the thief is in." : ".")
    }

    func said(_ answer: PlaygroundAnswer?) -> String {
        let reason = answer?.json["reason"]?.text.map { "(\($0))" } ?? ""
        return [String(answer?.status ?? 0), answer?.code ?? "", reason].filter { !$0.isEmpty }.joined(separator: " ")
    }

    /// Signs the user's tablet in with an unbound session and returns its jar; nil if that fails.
    private func signInTablet(_ provider: PlaygroundProvider) async -> CookieJar? {
        let tablet = CookieJar()
        guard let callback = await callback(provider.unbound, jar: tablet, who: "tablet"),
            await forward(callback, jar: tablet, who: "tablet", device: "Tablet").answer?.status == 201
        else { return nil }
        return tablet
    }

    private func logOutElsewhere() async {
        guard let provider = screen.provider, let handle = screen.session["handle"]?.text else { return }
        guard let tablet = await signInTablet(provider) else {
            return notice("Nothing.", "The tablet could not sign in: the provider does not answer at the moment.")
        }
        _ = await patiently(PlaygroundRequest(to: .broker, target: "/v1/sessions", jar: tablet, who: "tablet"))
        let ended = await patiently(
            PlaygroundRequest(
                method: "DELETE", to: .broker, target: "/v1/sessions/" + handle, jar: tablet, who: "tablet"))
        guard ended.answer?.status == 204 else {
            return notice(
                "Nothing.",
                "The tablet got \(ended.answer?.status ?? 0) \(ended.answer?.code ?? ""): at \(provider.title) a session "
                    + "belongs to its device, since the subject is a shop and not a person.")
        }
        // Wait for an event of the event stream, which reports the session's end at once. If the stream is closed, the next
        // call reports the end.
        for _ in 0..<40 where screen.view == .session { try? await Task.sleep(for: .milliseconds(50)) }
        if screen.view == .session,
            let answer = await patiently(
                PlaygroundRequest(to: .broker, target: "/v1/session", jar: jar)
            ).answer
        {
            lookForTheEnd(answer)
        }
        notice(
            "“\(screen.message)”",
            "An ended session is ended everywhere at once, and the phone can say why.")
    }

    private func killBroker() async {
        let before = jar.field
        guard broker.kill() else {
            return notice(
                "Nothing.",
                "Nobody is there to start the broker again, so it was left alone: this switch needs `make run`.")
        }
        for _ in 0..<500 {
            var probe = PlaygroundRequest(to: .broker, target: "/v1/providers")
            probe.isRecorded = false
            guard (try? await caller.send(probe)) != nil else { break }
            try? await Task.sleep(for: .milliseconds(10))
        }
        let outcome =
            screen.view == .session
            ? await callAPI() : await patiently(PlaygroundRequest(to: .broker, target: "/v1/providers"))
        let same = jar.field == before
        notice(
            screen.view == .session ? noticed(outcome) : "Nothing: no session was open.",
            "kill -9, then a new start. " + (same ? "The same cookie opens the same session: " : "")
                + "what was answered is on disk before it is answered.")
    }
}
