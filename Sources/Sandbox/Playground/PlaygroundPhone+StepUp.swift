/// The app's payments, and the second sign-in that they need.
extension PlaygroundPhone {
    /// Makes a payment.
    ///
    /// If the user has to sign in again, the payment waits while the provider's page is open.
    func pay(_ payment: PlaygroundPayment) async {
        guard screen.view == .session, screen.provider?.hasPayments == true else { return }
        screen.paid = ""
        notice("", "")
        await settle(order(payment), of: payment)
    }

    /// Returns from the provider's page to the session without a step-up; the broker is asked only for the session.
    func closeStepUp() async {
        endStepUp()
        notice(Self.unpaid, "The browser was closed: the broker is told nothing. " + (await standing()))
    }

    /// Chooses a user on the provider's page, or refuses there.
    ///
    /// Then finishes the step-up and the payment.
    func chooseAgain(_ name: String) async {
        let refused = name == "refuse"
        let form = Pairs(refused ? [("decision", "deny")] : [("user", name), ("decision", "allow")])
        let line = CurlLine(
            base: "", target: "$URL&" + (refused ? "sandbox_deny=1" : "sandbox_user=" + name), capture: .callback)
        await finishStepUp(browse(state.baseURL + page, form: form, curl: line))
    }

    /// Makes a payment while the provider ignores the demand on the sign-in.
    func ignoreStepUp() async {
        let provider = screen.provider?.name ?? ""
        let before = state.with { $0.settings[provider] }
        SandboxControl(state: state).set(settings: ["step_up": "ignores"], of: provider)
        await pay(.small)
        state.with { $0.settings[provider] = before }
    }

    /// Drops the step-up in progress, and shows the session.
    func endStepUp() {
        pending = nil
        screen.stepUp = ""
        screen.view = .session
    }

    static let unpaid = "That nothing was paid; they are still signed in."

    private func order(_ payment: PlaygroundPayment) async -> PlaygroundAnswer? {
        await patiently(payment.request(jar: jar)).answer
    }

    /// Shows the result of a payment, or starts the step-up that the answer demands; `story` describes the earlier steps.
    func settle(
        _ answer: PlaygroundAnswer?, of payment: PlaygroundPayment, after story: String = "", isPresent: Bool = false
    ) async {
        if let answer, answer.status == 201 {
            screen.paid = PhoneMessages.paid(answer.json)
            return notice(
                isPresent
                    ? "The phone's question; and the payment is made."
                    : story.isEmpty
                        ? "Nothing but the payment." : "The provider's page, once; and the payment is made.",
                story.isEmpty ? "Paid at once: the user signed in less than five minutes ago." : story)
        }
        if let answer, answer.code == "step_up_required", story.isEmpty, let demand = answer.json["step_up"] {
            return await startStepUp(demand, for: payment)
        }
        if let answer, answer.code == "presence_required", !isPresent {
            guard let paid = await payInPresence(payment) else { return }
            return await settle(
                paid, of: payment,
                after: (story.isEmpty ? "" : story + " ") + "The user said yes on the phone, whose second key "
                    + "then signed this very request, for this once.", isPresent: true)
        }
        if let answer { lookForTheEnd(answer) }
        guard screen.view == .session else { return notice("“\(screen.message)”", story) }
        notice(Self.unpaid, (story.isEmpty ? "" : story + " ") + "The payment was answered \(said(answer)).")
    }

    /// Starts a step-up; `isStolen` means that thieves will try to use the payment's confirmation.
    func startStepUp(_ demand: JSON, for payment: PlaygroundPayment, isStolen: Bool = false) async {
        var request = PlaygroundRequest.json("POST", "/v1/logins", ["step_up": demand], jar: jar)
        request.capture = .authorizationURL
        request.isProved = isBound
        let answer = await patiently(request).answer
        guard answer?.status == 201, let url = answer?.json["authorization_url"]?.text else {
            return await refused(answer)
        }
        pending = PendingPayment(payment: payment, isStolen: isStolen)
        screen.stepUp = PhoneMessages.demand(demand, of: payment)
        screen.address = String(Shortened.text(url).prefix { $0 != "?" })
        let visit = await browse(url, curl: CurlLine(base: "", target: "$URL"))
        guard case .page(let target) = visit else { return await finishStepUp(visit) }
        page = target
        screen.view = .consent
    }

    /// Forwards the step-up's callback together with the session's cookie, and then repeats the payment.
    private func finishStepUp(_ visit: Visit) async {
        guard let pending else { return }
        let payment = pending.payment
        endStepUp()
        guard case .callback(let callback) = visit else { return await refused(nil) }
        let (handle, cookie) = (screen.session["handle"], jar.session?.value)
        let answer = await forward(callback, jar: jar).answer
        guard let answer, answer.status == 200 else { return await refused(answer) }
        screen.session = answer.json
        let isSame = answer.json["handle"] == handle && jar.session?.value == cookie
        let story =
            isSame
            ? "The user signed in again, and the same session goes on: \(handle?.text ?? ""), and the same cookie. Then the "
                + "payment was made once more." : "Something is wrong: it is another session."
        let ordered = await order(payment)
        if pending.isStolen, ordered?.code == "presence_required" { return await stealConfirmation(after: story) }
        await settle(ordered, of: payment, after: story)
    }

    /// Reports a failed step-up, and that the session is unchanged.
    private func refused(_ answer: PlaygroundAnswer?) async {
        if let answer { lookForTheEnd(answer) }
        // Another user has signed in. Clear the browser's cookies, because otherwise the provider would silently accept this
        // user again at each attempt.
        if answer?.code == "subject_mismatch" { browser.clear() }
        guard screen.view == .session else { return notice("“\(screen.message)”", "") }
        notice(Self.unpaid, PhoneMessages.refusedStepUp(answer, said: said(answer)) + " " + (await standing()))
    }

    /// Requests the session from the broker and describes it.
    private func standing() async -> String {
        let answer = await patiently(PlaygroundRequest(to: .broker, target: "/v1/session", jar: jar)).answer
        guard let answer, answer.status == 200 else { return "The session was answered \(said(answer))." }
        let isSame = ["handle", "authenticated_at", "acr"].allSatisfy { answer.json[$0] == screen.session[$0] }
        return isSame ? "The session is as it was." : "Something is wrong: the session has changed."
    }
}
