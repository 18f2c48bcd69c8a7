/// The app's web view, a browser with its own cookie store, which receives the app's session by hand-over.
extension PlaygroundPhone {
    /// A ticket's address, and the secret that the app stores for the web view.
    private struct Ticket {
        let url: String
        let secret: String
    }

    static let webView = "web view"

    /// Opens the shop's page in the web view, which is signed in by hand-over.
    func openShop() async {
        guard let ticket = await ticket() else { return }
        await open(ticket)
    }

    /// Reloads the page in the web view, as the page's own script does, and shows the answer.
    ///
    /// After the session's end, empties the web view's cookie store.
    func reloadShop() async {
        guard webViewJar.web != nil else { return }
        let answer = try? await caller.send(
            PlaygroundRequest(to: .broker, target: Self.page, jar: webViewJar, who: Self.webView))
        if let answer { show(answer) }
        if screen.view != .session { webViewJar.clear() }
    }

    /// The page in the web view: an address of the broker that shows the web view's session.
    private static let page = "/v1/session"
    private static let secretName = "coatcheck-handover"

    private func ticket() async -> Ticket? {
        let secret = Random.token(bytes: 32)
        let order: JSON = [
            "origin": .string(caller.broker), "path": .string(Self.page),
            "challenge": .string(Base64URL.encode(Digest256.bytes(secret))),
        ]
        var request = PlaygroundRequest.json("POST", "/v1/session/handovers", order, jar: jar)
        request.capture = .handover
        let outcome = await patiently(request)
        guard outcome.answer?.status == 201, let url = outcome.answer?.json["url"]?.text,
            url.hasPrefix(caller.broker + "/")
        else {
            if let answer = outcome.answer { lookForTheEnd(answer) }
            screen.shop = "The page could not be opened (\(said(outcome.answer)))."
            return nil
        }
        return Ticket(url: String(url.dropFirst(caller.broker.count)), secret: secret)
    }

    /// Stores the secret in the web view, and loads the ticket's address.
    ///
    /// Then the script of the loaded page redeems the ticket with a POST.
    private func open(_ ticket: Ticket) async {
        webViewJar.take(Self.secretName + "=" + ticket.secret)
        screen.shopAddress = caller.broker + "/handover/" + Shortened.secret(String(ticket.url.dropFirst(10)))
        let shown = try? await caller.send(visit(ticket, jar: webViewJar, who: Self.webView))
        guard shown?.status == 200 else { return show(shown) }
        let answer = try? await caller.send(post(ticket, jar: webViewJar, who: Self.webView))
        guard answer?.status == 303 else { return show(answer) }
        screen.shopAddress = caller.broker + Self.page
        await reloadShop()
    }

    private func visit(_ ticket: Ticket, jar: CookieJar, who: String) -> PlaygroundRequest {
        PlaygroundRequest(
            to: .broker, target: ticket.url, jar: jar, who: who,
            curl: CurlLine(base: "", target: "$URL", jar: who == Self.webView ? "web.txt" : nil))
    }

    /// Returns the request of the page's own script, with the browser's fields about its origin.
    private func post(_ ticket: Ticket, jar: CookieJar, who: String) -> PlaygroundRequest {
        var request = visit(ticket, jar: jar, who: who)
        request.method = "POST"
        request.headers = [
            ("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin"),
            ("Accept", "application/problem+json"),
        ]
        request.curl = CurlLine(
            method: "POST", base: "", target: "$URL",
            headers: [("Sec-Fetch-Site", "same-origin")] + (jar.field.map { [("Cookie", $0)] } ?? []))
        return request
    }

    private func show(_ answer: PlaygroundAnswer?) {
        let session = answer?.json ?? .null
        guard answer?.status == 200, let kind = session["kind"]?.text else {
            screen.shop = "The page is signed in no more: \(said(answer))."
            return
        }
        let name = session["identity"]?["name"]?.text ?? session["subject"]?.text ?? ""
        screen.shop = "Welcome, \(name). A session of kind “\(kind)”, \(session["handle"]?.text ?? "")."
    }

    /// Simulates two thefts, and shows the results: a thief copies the ticket's address; and a thief copies the page's cookie.
    func stealAddress() async {
        guard let ticket = await ticket() else { return }
        let stranger = CookieJar()
        _ = try? await caller.send(visit(ticket, jar: stranger, who: "thief"))
        let bare = try? await caller.send(post(ticket, jar: stranger, who: "thief"))
        stranger.take(Self.secretName + "=" + Random.token(bytes: 32))
        let guessed = try? await caller.send(post(ticket, jar: stranger, who: "thief"))
        await open(ticket)
        let refused = bare?.status == 400 && guessed?.status == 400 && stranger.web == nil
        var words =
            "The copied address got \(said(bare)), with a secret of the thief's own \(said(guessed)): it wants the one that "
            + "the app put into its web view."
        if let cookie = webViewJar.web {
            let copy = CookieJar()
            copy.take(cookie.name + "=" + cookie.value)
            let inside = try? await caller.send(
                PlaygroundRequest(to: .broker, target: Self.page, jar: copy, who: "thief"))
            thief = copy
            words +=
                " The page's own cookie, copied, got \(said(inside)), and ends with the app's session: sign out, and see."
        }
        notice(refused ? "Nothing, and the address gets the thief nothing." : "Nothing, and the thief is in.", words)
    }
}

extension CookieJar {
    /// The cookie of a session that a page got by hand-over.
    var web: (name: String, value: String)? {
        for name in ["coatcheck-web", "__Host-coatcheck-web"] { if let value = self[name] { return (name, value) } }
        return nil
    }
}
