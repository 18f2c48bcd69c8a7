import HTTPTypes
import Hummingbird

/// `/playground`: the page, and the actions of its buttons.
struct PlaygroundAPI: Sendable {
    /// Whether a path belongs to the playground.
    static func owns(_ path: String) -> Bool { path == "/playground" || path.hasPrefix("/playground/") }

    let playground: Playground
    let state: SandboxState

    func handle(method: String, path: String, caller: PlaygroundGuard.Caller, body: [UInt8]) async -> Response {
        do throws(PlaygroundGuard.Refusal) {
            guard method == "POST" else {
                try PlaygroundGuard.checkPlace(caller)
                return method == "GET" || method == "HEAD" ? file(path) : .text("GET or POST\n", status: 405)
            }
            try playground.gate.check(caller)
        } catch {
            return .json(["error": .string(error.rawValue)], status: error.status)
        }
        guard let json = try? JSON.parse(body), json.members != nil else {
            return .json(["error": "The body has to be a JSON object."], status: 400)
        }
        let action = String(path.dropFirst("/playground/".count))
        if action == "wait" { return .json(await news(json)) }
        return await act(action, json)
            ? .json(["done": true])
            : .json(["error": "Not now."], status: 409)
    }

    private func file(_ path: String) -> Response {
        let headers = [
            (
                "Content-Security-Policy",
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
                    + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
            ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ]
        switch path {
        case "/playground": return .found("/playground/")
        case "/playground/":
            let page = PlaygroundPage.html.split(separator: "@TOKEN@", omittingEmptySubsequences: false)
                .joined(separator: playground.gate.token)
            return .text(page, type: "text/html; charset=utf-8", headers: headers)
        case "/playground/style.css":
            return .text(PlaygroundPage.css, type: "text/css; charset=utf-8", headers: headers)
        case "/playground/script.js":
            return .text(PlaygroundPage.script, type: "text/javascript; charset=utf-8", headers: headers)
        case "/playground/icon.svg": return .text(PlaygroundPage.icon, type: "image/svg+xml", headers: headers)
        default: return .text("no such path\n", status: 404)
        }
    }

    private func act(_ action: String, _ json: JSON) async -> Bool {
        let phone = playground.phone
        switch action {
        case "sign-in":
            guard let provider = json["provider"]?.text.flatMap(PlaygroundProvider.named) else { return false }
            return await phone.perform("Signing in") { await $0.signIn(provider) }
        case "old-app": return await phone.perform("Signing in") { await $0.signInToOldApp() }
        case "update":
            guard await phone.screen.view == .oldApp else { return false }
            return await phone.perform("Updating the app") { await $0.updateApp() }
        case "choose":
            guard let name = json["as"]?.text, ["ana", "ben", "new", "refuse"].contains(name) else { return false }
            return await phone.perform("Signing in") { await $0.choose(name) }
        case "cancel": return await phone.perform("Back") { await $0.cancel() }
        case "register":
            guard let attributes = json["attributes"], attributes.members != nil else { return false }
            return await phone.perform("Registering") { await $0.register(attributes) }
        case "call": return await phone.perform("Calling the API") { _ = await $0.callAPI() }
        case "pay":
            guard let payment = json["amount"]?.number.flatMap(PlaygroundPayment.init(rawValue:)) else { return false }
            return await phone.perform("Paying") { await $0.pay(payment) }
        case "shop":
            return await phone.perform("Opening the shop") { phone in
                if phone.screen.view == .session, phone.screen.provider?.hasShop == true { await phone.openShop() }
            }
        case "listen":
            let wanted = json["on"]?.flag == true
            return await phone.perform("Listening") { phone in
                if wanted, phone.screen.view == .session { phone.startListening() } else { phone.stopListening() }
            }
        case "sign-out": return await phone.perform("Signing out") { await $0.signOut() }
        case "trouble":
            guard let trouble = json["name"]?.text.flatMap(TroubleSwitch.init(rawValue:)) else { return false }
            return await phone.makeTrouble(trouble)
        case "key":
            guard let x = json["x"]?.text, let y = json["y"]?.text else { return false }
            return await (json["for"]?.text == "presence" ? phone.presenceKey : phone.key).take(x: x, y: y)
        case "signed":
            guard let number = json["number"]?.number, let signature = json["signature"]?.text else { return false }
            return await (json["for"]?.text == "presence" ? phone.presenceKey : phone.key)
                .take(signature: signature, of: number)
        case "no":
            await phone.presenceKey.takeBack()
            return true
        case "clear":
            playground.conversation.clear()
            return true
        default: return false
        }
    }

    /// Returns the changes since the page's last request; waits up to twenty seconds for the first change.
    private func news(_ json: JSON) async -> JSON {
        let (after, version) = (json["after"]?.number ?? 0, json["version"]?.number ?? -1)
        let beginning = json["beginning"]?.number ?? -1
        for _ in 0..<400 {
            let news = playground.conversation.since(after)
            if !news.messages.isEmpty || news.beginning != beginning { break }
            if await playground.phone.version != version { break }
            if await !playground.phone.key.orders.isEmpty { break }
            try? await Task.sleep(for: .milliseconds(50))
        }
        let orders = await playground.phone.key.orders
        let questions = await playground.phone.presenceKey.orders
        let (screen, seen) = await (playground.phone.screen, playground.phone.version)
        let news = playground.conversation.since(after)
        return [
            "version": .int(seen), "last": .int(news.last), "beginning": .int(news.beginning), "screen": screen.json,
            "messages": .array(news.messages.map(\.json)),
            "sign": .array(orders.map { ["number": .int($0.number), "text": .string($0.text)] }),
            "confirm": .array(questions.map { ["number": .int($0.number), "text": .string($0.text)] }),
            "providers": .array(
                PlaygroundProvider.all.map {
                    ["name": .string($0.choice), "title": .string($0.title), "remark": .string($0.remark)]
                }),
            "switches": .array(
                TroubleSwitch.allCases.map {
                    [
                        "name": .string($0.rawValue), "title": .string($0.title),
                        "explanation": .string($0.explanation), "group": .string($0.group.rawValue),
                        "needs_session": .bool($0.needsSession),
                        "needs_refreshing": .bool($0.needsRefreshing), "needs_shop": .bool($0.needsShop),
                        "needs_payments": .bool($0.needsPayments),
                        "needs_key": .bool($0.needsKey), "needs_old_app": .bool($0.needsOldApp),
                    ]
                }),
            "variables": .string("BROKER=\(playground.configuration.broker) SANDBOX=\(state.baseURL)"),
        ]
    }
}
