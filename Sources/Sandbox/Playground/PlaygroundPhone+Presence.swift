/// The phone's second key, which signs only when its user has said yes on the page: it stands in for Face ID or a fingerprint.
extension PlaygroundPhone {
    /// The sender's mark of a proof of presence.
    static let presence = "Coatcheck-Presence"

    /// Has the user confirm a payment, and makes it; where the session has no presence key yet, that comes first.
    ///
    /// Nil where the user did not say yes, or the key was not taken; the phone has said so then.
    func payInPresence(_ payment: PlaygroundPayment) async -> PlaygroundAnswer? {
        guard let request = await confirmed(payment) else { return nil }
        let answer = await patiently(request).answer
        if answer == nil { notice(Self.unpaid, "No answer came.") }
        return answer
    }

    /// A payment with the proof of the user's presence over this very request.
    func confirmed(_ payment: PlaygroundPayment) async -> PlaygroundRequest? {
        guard await hasPresenceKey() else { return nil }
        var request = payment.request(jar: jar)
        guard let proof = await ask("Pay \(payment.title) to “Corner Shop”?", over: request) else { return nil }
        request.headers.append((Self.presence, proof))
        return request
    }

    /// Registers the key where the session has none; false where that came to nothing.
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

    /// Asks the user, and has the second key sign; nil where the answer was no, or none came for two minutes.
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

    /// One payment that the user confirms, and who would pay with what was seen of it.
    func stealPresence() async {
        // The answer brings the nonce that the user is asked with, or asks for the sign-in that comes first.
        let first = await patiently(PlaygroundPayment.large.request(jar: jar)).answer
        if let first, first.code == "step_up_required", let demand = first.json["step_up"] {
            return await startStepUp(demand, for: .large, isStolen: true)
        }
        guard first?.code == "presence_required" else { return await settle(first, of: .large) }
        await stealConfirmation()
    }

    /// Has the user confirm the payment, and thieves try what they saw of it; `story` is what came before it, in words.
    func stealConfirmation(after story: String = "") async {
        guard let paid = await confirmed(.large) else { return }
        let before = state.with { $0.payments.count }
        var elsewhere = paid
        elsewhere.target += "/other"
        let moved = await asThief(elsewhere)
        let answer = await patiently(paid).answer
        let again = await asThief(paid)
        // What runs elsewhere on the phone: the app's cookie and the key that asks nobody, but not the one that does.
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

    /// Sends a request with a copy of all of the phone's cookies; a proof of the silent key where it is to have one.
    private func asThief(_ request: PlaygroundRequest) async -> PlaygroundAnswer? {
        var request = request
        request.who = "thief"
        request.jar = jar.copy
        let answer = await sendOnce(request)
        return answer?.code == "use_dpop_nonce" ? await sendOnce(request) : answer
    }
}

extension PlaygroundPayment {
    /// The payment's request, without evidence.
    func request(jar: CookieJar) -> PlaygroundRequest {
        .json("POST", target, ["amount": .int(rawValue), "currency": "EUR"], jar: jar)
    }
}
