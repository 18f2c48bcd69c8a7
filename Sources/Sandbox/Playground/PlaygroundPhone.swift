/// The phone, an app with its own cookie jar and a browser.
///
/// The app does what the documentation for apps requires.
actor PlaygroundPhone {
    /// The result of a request that was repeated until it was answered.
    struct Outcome: Sendable {
        /// The answer; nil if it did not come within a minute.
        var answer: PlaygroundAnswer?
        var tries = 0
        var waited = Duration.zero
    }

    /// The address at which the browser arrives after all redirects.
    enum Visit: Sendable {
        case page(String)
        case callback(String)
        case nothing
    }

    let state: SandboxState
    let caller: PlaygroundCaller
    let conversation: Conversation
    let broker: BrokerProcess
    let jar = CookieJar()
    let webViewJar = CookieJar()
    let key = DeviceKey()
    /// The key that the page uses only after its user has confirmed.
    let presenceKey = DeviceKey()
    /// The nonce for the next proof.
    var nonce: String?
    let browser = CookieJar()
    var screen = PhoneScreen() {
        didSet { version += 1 }
    }
    /// A number that grows with each change of the screen.
    private(set) var version = 0
    /// The user who was last chosen at the provider.
    var user = "ana"
    /// The jar of the thief who copied the session cookie; nil if there is none.
    var thief: CookieJar?
    /// The provider's page in the browser.
    var page = ""
    /// The payment that waits until the user has signed in again; nil if there is none.
    var pending: PendingPayment?
    private var listener: Task<Void, Never>?
    private var listening = 0

    init(state: SandboxState, configuration: PlaygroundConfiguration, conversation: Conversation) {
        self.state = state
        self.conversation = conversation
        broker = BrokerProcess(commands: configuration.commands)
        caller = PlaygroundCaller(conversation: conversation, broker: configuration.broker) { state.baseURL }
    }

    /// Runs one action at a time; returns false if the phone is busy.
    func perform(_ what: String, _ work: @Sendable (isolated PlaygroundPhone) async -> Void) async -> Bool {
        guard screen.busy.isEmpty else { return false }
        screen.busy = what
        await work(self)
        screen.busy = ""
        return true
    }

    // MARK: Signing in

    /// Starts a login and shows the provider's page.
    func signIn(_ provider: PlaygroundProvider) async {
        begin(provider)
        guard let url = await startLogin(provider, jar: jar) else { return }
        await visit(url, curl: CurlLine(base: "", target: "$URL"))
    }

    /// Clears the screen for a sign-in.
    func begin(_ provider: PlaygroundProvider) {
        stopListening()
        pending = nil
        screen.stepUp = ""
        screen.message = ""
        screen.noticed = ""
        screen.explanation = ""
        screen.oldApp = nil
        screen.provider = provider
        browser.clear()
    }

    /// Opens the provider's page in the browser.
    func visit(_ url: String, curl: CurlLine) async {
        screen.address = String(Shortened.text(url).prefix { $0 != "?" })
        switch await browse(url, curl: curl) {
        case .page(let target):
            page = target
            screen.view = .consent
        case .callback(let callback): await arrive(with: callback)
        case .nothing: failed(nil, PhoneMessages.silentProvider)
        }
    }

    /// Passes the callback to the app, which sends it to the broker, or as an older app exchanges its code itself.
    private func arrive(with callback: String) async {
        if screen.oldApp != nil { await redeem(callback) } else { await settle(forward(callback, jar: jar)) }
    }

    /// Chooses a user on the provider's page, or refuses there.
    ///
    /// Then shows the session or the failure.
    func choose(_ name: String) async {
        guard screen.view == .consent else { return }
        guard pending == nil else { return await chooseAgain(name) }
        let refused = name == "refuse"
        user = name == "new" ? "new-" + Random.token(bytes: 4).filter { $0 != "_" && $0 != "-" }.lowercased() : name
        let form = Pairs(refused ? [("decision", "deny")] : [("user", user), ("decision", "allow")])
        let age = screen.provider?.age ?? ""
        let line = CurlLine(
            base: "",
            // A person may run this curl line later. The provider then already knows the phone's new user, so the line has
            // another new user.
            target: refused
                ? "$URL&sandbox_deny=1" : "$URL&sandbox_user=" + (name == "new" ? "new-$RANDOM$RANDOM" : user) + age,
            capture: .callback)
        if refused { user = "ana" }
        screen.view = .home
        guard case .callback(let callback) = await browse(state.baseURL + page + age, form: form, curl: line) else {
            return failed(nil, PhoneMessages.silentProvider)
        }
        await arrive(with: callback)
    }

    /// Leaves the provider's page or the older app.
    ///
    /// From a step-up, the phone returns to the session, and otherwise to the list of providers.
    func cancel() async {
        guard pending == nil else { return await closeStepUp() }
        screen.view = .home
        screen.oldApp = nil
        screen.registration = .null
    }

    /// Finishes a registration with the missing attributes.
    func register(_ attributes: JSON) async {
        guard let provider = screen.provider, let key = screen.registration["state_key"] else { return }
        let body: JSON = [
            "provider": .string(provider.name), "client": .string(provider.client), "state_key": key,
            "attributes": attributes,
        ]
        await settle(patiently(.json("POST", "/v1/registrations", body, jar: jar)))
    }

    /// Starts a login at the broker; returns the address for the browser.
    func startLogin(_ provider: PlaygroundProvider, jar: CookieJar, who: String = "") async -> String? {
        var request = PlaygroundRequest.json("POST", "/v1/logins", provider.loginBody, jar: jar)
        request.capture = .authorizationURL
        request.who = who
        request.isProved = provider.isBound
        let outcome = await patiently(request)
        guard outcome.answer?.status == 201, let url = outcome.answer?.json["authorization_url"]?.text else {
            if who.isEmpty { failed(outcome.answer) }
            return nil
        }
        return url
    }

    /// Runs a whole login up to the callback; the provider chooses the user without showing its page.
    ///
    /// A failure on another device is not shown to this phone's user.
    func callback(_ provider: PlaygroundProvider, jar: CookieJar, who: String = "") async -> String? {
        guard let url = await startLogin(provider, jar: jar, who: who) else { return nil }
        let query = "&sandbox_user=" + user + provider.age
        let line = CurlLine(base: "", target: "$URL" + query, capture: .callback)
        let visit = await browse(url + query, curl: line)
        if case .callback(let callback) = visit { return callback }
        if who.isEmpty { failed(nil, PhoneMessages.silentProvider) }
        return nil
    }

    /// Forwards a callback to the broker.
    func forward(_ callback: String, jar: CookieJar, who: String = "", device: String = "Phone") async -> Outcome {
        var request = Self.forwarding(callback, jar: jar, who: who, device: device)
        request.isProved = isBound && who.isEmpty
        return await patiently(request)
    }

    /// Returns the request that forwards a callback to the broker.
    static func forwarding(
        _ callback: String, jar: CookieJar, who: String = "", device: String = "Phone"
    ) -> PlaygroundRequest {
        var request = PlaygroundRequest.json(
            "POST", "/v1/sessions", ["callback_url": .string(callback), "device": .string(device)], jar: jar)
        request.who = who
        if callback.contains("state_key=") { request.capture = .stateKey }
        return request
    }

    /// Shows the result of a forward or a registration.
    func settle(_ outcome: Outcome) {
        pending = nil
        screen.stepUp = ""
        switch outcome.answer?.status {
        case 201:
            screen.session = outcome.answer?.json ?? .null
            screen.oldApp = nil
            screen.registration = .null
            screen.message = ""
            screen.relay = ""
            screen.paid = ""
            screen.shop = ""
            screen.events = []
            screen.view = .session
            startListening()
        case 202:
            screen.registration = outcome.answer?.json ?? .null
            screen.view = .registration
        default: failed(outcome.answer)
        }
    }

    /// Returns to the list of providers, and shows the reason of the failure.
    func failed(_ answer: PlaygroundAnswer?, _ message: String? = nil) {
        pending = nil
        screen.stepUp = ""
        screen.message = message ?? PhoneMessages.failed(answer)
        screen.view = .home
        screen.oldApp = nil
        screen.session = .null
        screen.registration = .null
    }

    func browse(_ url: String, form: Pairs? = nil, curl: CurlLine) async -> Visit {
        let base = state.baseURL
        var url = url
        var (form, curl) = (form, Optional(curl))
        for _ in 0..<6 {
            guard url.hasPrefix(base + "/") else { return .callback(url) }
            var request = PlaygroundRequest(
                to: .provider, target: String(url.dropFirst(base.count)), jar: browser, who: "browser", curl: curl)
            if let form {
                request.method = "POST"
                request.headers = [("Content-Type", "application/x-www-form-urlencoded")]
                request.body = Array(form.encoded.utf8)
            }
            guard let answer = try? await caller.send(request) else { return .nothing }
            if let location = answer.header("Location"), (300..<400).contains(answer.status) {
                url = location
                (form, curl) = (nil, nil)
                continue
            }
            return answer.status == 200 ? .page(request.target) : .nothing
        }
        return .nothing
    }

    // MARK: While the session lives

    /// Calls the API through the relay.
    func callAPI() async -> Outcome {
        let outcome = await patiently(
            PlaygroundRequest(to: .broker, target: "/v1/relay/" + (screen.provider?.relay ?? "api/echo"), jar: jar))
        if let answer = outcome.answer {
            screen.relay = PhoneMessages.called(answer)
            lookForTheEnd(answer)
        } else {
            screen.relay = "No answer yet; you are still signed in."
        }
        return outcome
    }

    /// Ends the session at the broker; a thief who has the cookie then tries the cookie again.
    func signOut() async {
        let outcome = await patiently(PlaygroundRequest(method: "DELETE", to: .broker, target: "/v1/session", jar: jar))
        guard outcome.answer?.status == 204 else { return failed(outcome.answer) }
        ended("logged_out")
        await reloadShop()
        guard let thief else { return }
        let attempt = try? await caller.send(
            PlaygroundRequest(to: .broker, target: "/v1/session", jar: thief, who: "thief"))
        self.thief = nil
        screen.cookieIsStolen = false
        screen.noticed = "That they are signed out, as they wanted."
        let worthless = isBound ? "still worth nothing" : "worth nothing any more"
        screen.explanation =
            attempt?.status == 401
            ? "The thief's copy of the cookie is \(worthless): 401, \(attempt?.json["reason"]?.text ?? "")."
            : "The thief's copy was answered \(attempt?.status ?? 0)."
    }

    /// Repeats a request until it is answered, as the documentation demands.
    ///
    /// The pauses grow, or follow `Retry-After`, for a minute in total.
    func patiently(_ request: PlaygroundRequest) async -> Outcome {
        let clock = ContinuousClock()
        let begin = clock.now
        var outcome = Outcome()
        var pause = Duration.milliseconds(300)
        let doing = screen.busy
        while true {
            outcome.tries += 1
            outcome.answer = await send(request)
            outcome.waited = clock.now - begin
            var wait = pause
            if let answer = outcome.answer {
                guard answer.status == 503 || answer.status == 429, answer.json["retry"]?.text != "new_login",
                    answer.header("Coatcheck-Source") != "upstream"
                else { break }
                wait = .seconds(min(10, Int(answer.header("Retry-After") ?? "") ?? 1))
            }
            guard outcome.waited + wait < .seconds(60) else { break }
            screen.busy = "One moment: trying again"
            try? await Task.sleep(for: wait)
            pause = min(pause * 2, .seconds(3))
        }
        screen.busy = doing
        return outcome
    }

    /// Drops the session, and shows the reason.
    func ended(_ reason: String) {
        stopListening()
        jar.clear()
        pending = nil
        screen.stepUp = ""
        screen.view = .home
        screen.session = .null
        screen.relay = ""
        screen.paid = ""
        screen.shop = ""
        screen.message = PhoneMessages.ended(reason)
    }

    /// Ends the session in the app if an answer reports that it has ended.
    ///
    /// A 401 with `session_ended` or `session_required` is such an answer. If the session is bound to another key (of a page in
    /// another browser), the app drops the session too.
    func lookForTheEnd(_ answer: PlaygroundAnswer) {
        guard answer.status == 401, answer.header("Coatcheck-Source") != "upstream" else { return }
        let isLost = answer.code == "proof_invalid" && answer.json["reason"]?.text == "key"
        guard isLost || ["session_ended", "session_required"].contains(answer.code) else { return }
        ended(answer.json["reason"]?.text ?? answer.code)
    }

    // MARK: Events

    /// Opens the event stream, and opens it again whenever it breaks.
    func startListening() {
        stopListening()
        listening += 1
        let mine = listening
        listener = Task { await self.listen(mine) }
    }

    /// Closes the event stream.
    func stopListening() {
        listening += 1
        listener?.cancel()
        listener = nil
        if screen.isListening { screen.isListening = false }
    }

    private func listen(_ mine: Int) async {
        var pause = Duration.milliseconds(300)
        while mine == listening {
            let request = PlaygroundRequest(to: .broker, target: "/v1/session/events", jar: jar)
            try? await caller.listen(request) { answer in
                await self.opened(answer, mine)
            } event: { name, data in
                await self.received(name, data, mine)
            }
            guard mine == listening else { return }
            screen.isListening = false
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, .seconds(5))
        }
    }

    private func opened(_ answer: PlaygroundAnswer, _ mine: Int) async -> Bool {
        guard mine == listening else { return false }
        if answer.status == 200 { screen.isListening = true } else { lookForTheEnd(answer) }
        // The pass with which the event stream was opened has ended, so a new pass is needed to open the stream again.
        if isBound, answer.code == "proof_required" { _ = await renewPass() }
        return answer.status == 200
    }

    private func received(_ name: String, _ data: JSON, _ mine: Int) {
        guard mine == listening else { return }
        let reason = data["reason"]?.text ?? ""
        screen.events = Array((screen.events + [name + (reason.isEmpty ? "" : " (\(reason))")]).suffix(4))
        if name == "session" { screen.session = data }
        // If the session has ended because a newer one replaced it, the jar already has the cookie of the newer session.
        if name == "session_ended", reason != "replaced" { ended(reason) }
    }
}
