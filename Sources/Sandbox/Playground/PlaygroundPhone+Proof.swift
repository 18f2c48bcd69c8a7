/// The requests of an app whose sessions are bound to a key of its device.
extension PlaygroundPhone {
    /// Sends a request, and repeats it once with the evidence that the broker demands: a proof with its nonce, or a fresh
    /// pass.
    func send(_ request: PlaygroundRequest) async -> PlaygroundAnswer? {
        let answer = await sendOnce(request)
        guard let answer, answer.status == 401, isBound, request.who.isEmpty else { return answer }
        switch answer.code {
        case "use_dpop_nonce": return await sendOnce(request)
        case "proof_required" where !request.isProved:
            return await renewPass() ? await sendOnce(request) : answer
        default: return answer
        }
    }

    /// Whether the chosen sign-in gives a session that is bound to the phone's key.
    var isBound: Bool { screen.provider?.isBound == true }

    /// Exchanges a proof for a new pass, and stores the pass in the jar.
    ///
    /// If the session is bound to another key, the phone drops the session.
    func renewPass() async -> Bool {
        var request = PlaygroundRequest(method: "POST", to: .broker, target: "/v1/session/pass", jar: jar)
        request.isProved = true
        guard let answer = await send(request) else { return false }
        lookForTheEnd(answer)
        return answer.status == 200
    }

    func sendOnce(_ request: PlaygroundRequest) async -> PlaygroundAnswer? {
        var request = request
        if request.isProved {
            let text = proof(of: request).signingInput(jwk: await key.jwk)
            if let signature = await key.sign(text) { request.headers.append(("DPoP", text + "." + signature)) }
        }
        let answer = try? await caller.send(request)
        if let next = answer?.header("DPoP-Nonce") { nonce = next }
        return answer
    }

    func proof(of request: PlaygroundRequest) -> PlaygroundProof {
        PlaygroundProof(request: request, broker: caller.broker, issuedAt: state.now, nonce: nonce)
    }
}
