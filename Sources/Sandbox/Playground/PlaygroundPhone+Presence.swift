/// The phone's second key, which signs only after its user has confirmed on the page.
///
/// The question on the page represents Face ID or a fingerprint.
extension PlaygroundPhone {
    /// The field that carries a presence proof.
    static let presence = "Coatcheck-Presence"

    /// Makes a payment that the user confirms; registers the session's presence key first if there is none.
    ///
    /// Returns nil in three cases: the user refused; the broker refused the key; or no answer came. The phone has then shown
    /// the reason.
    func payInPresence(_ payment: PlaygroundPayment) async -> PlaygroundAnswer? {
        guard let request = await confirmed(payment) else { return nil }
        let answer = await patiently(request).answer
        if answer == nil { notice(Self.unpaid, "No answer came.") }
        return answer
    }

    /// Returns the request of a payment, with a presence proof for exactly this request.
    func confirmed(_ payment: PlaygroundPayment) async -> PlaygroundRequest? {
        guard await hasPresenceKey() else { return nil }
        var request = payment.request(jar: jar)
        guard let proof = await ask("Pay \(payment.title) to “Corner Shop”?", over: request) else { return nil }
        request.headers.append((Self.presence, proof))
        return request
    }

    /// Registers the session's presence key if it is missing; returns false if that fails.
    private func hasPresenceKey() async -> Bool {
        guard screen.session["presence"]?.members == nil else { return true }
        var request = PlaygroundRequest(method: "PUT", to: .broker, target: "/v1/session/presence-key", jar: jar)
        request.isProved = true
        guard let proof = await ask("Let this phone confirm payments to “Corner Shop”?", over: request) else {
            return false
        }
        request.headers.append((Self.presence, proof))
        let answer = await patiently(request).answer
        guard let answer, answer.status == 200 else {
            notice(Self.unpaid, "The key that asks for the user was answered \(said(answer)).")
            return false
        }
        screen.session = answer.json
        return true
    }

    /// Asks the user a question.
    ///
    /// After the answer yes, the presence key signs, and the proof is returned.
    ///
    /// Returns nil after the answer no, or after two minutes.
    private func ask(_ question: String, over request: PlaygroundRequest) async -> String? {
        let text = proof(of: request).signingInput(jwk: await presenceKey.jwk)
        let number = await presenceKey.order(text)
        screen.question = question
        let signature = await presenceKey.signature(of: number, within: .seconds(120))
        screen.question = ""
        guard let signature else {
            notice(Self.unpaid, "The user did not say yes on the phone: no proof was made, and nothing was sent.")
            return nil
        }
        return text + "." + signature
    }

    /// Lets the user confirm a payment, while thieves try to pay with messages that they have copied.
    func stealPresence() async {
        // The answer to this first request has the nonce for the presence proof, or demands a sign-in.
        let first = await patiently(PlaygroundPayment.large.request(jar: jar)).answer
        if let first, first.code == "step_up_required", let demand = first.json["step_up"] {
            return await startStepUp(demand, for: .large, isStolen: true)
        }
        guard first?.code == "presence_required" else { return await settle(first, of: .large) }
        await stealConfirmation()
    }

    /// Lets the user confirm the payment, while thieves try to reuse the confirmation; `story` describes the earlier steps.
    func stealConfirmation(after story: String = "") async {
        guard let paid = await confirmed(.large) else { return }
        let before = state.with { $0.payments.count }
        var elsewhere = paid
        elsewhere.target += "/other"
        let moved = await asThief(elsewhere)
        let answer = await patiently(paid).answer
        let again = await asThief(paid)
        // Malware on the phone has the app's cookie, and can use the session's key, which signs silently. The presence key is
        // out of its reach.
        var silent = PlaygroundPayment.large.request(jar: jar)
        silent.isProved = true
        let bare = await asThief(silent)
        if let proof = proof(of: silent).byAnotherKey() { silent.headers.append((Self.presence, proof)) }
        let forged = await asThief(silent)
        let taken = state.with { $0.payments.count } - before
        if let answer, answer.status == 201 { screen.paid = PhoneMessages.paid(answer.json) }
        let refused = [moved, again, bare, forged].allSatisfy { $0?.status == 401 }
        notice(
            refused && taken == 1 && answer?.status == 201
                ? "The phone's question, and the thieves get nothing." : "Something is wrong: \(taken) payments.",
            (story.isEmpty ? "" : story + " ")
                + "The proof at another path got \(said(moved)); sent again, \(said(again)). The phone's silent key got "
                + "\(said(bare)), with a presence key of its own \(said(forged)). The API took one payment: the user's."
        )
    }

    /// Sends a request as a thief, who has copies of all the phone's cookies.
    ///
    /// If the request needs a proof, it has one by the device's key.
    private func asThief(_ request: PlaygroundRequest) async -> PlaygroundAnswer? {
        var request = request
        request.who = "thief"
        request.jar = jar.copy
        let answer = await sendOnce(request)
        return answer?.code == "use_dpop_nonce" ? await sendOnce(request) : answer
    }
}

extension PlaygroundPayment {
    /// The request of the payment, without evidence.
    func request(jar: CookieJar) -> PlaygroundRequest {
        .json("POST", target, ["amount": .int(rawValue), "currency": "EUR"], jar: jar)
    }
}
