import Broker

/// The provider itself, with its codes, its grants and the calls that it received.
final class Authority: @unchecked Sendable {
    let rotation: Weather.Rotation
    private(set) var families: [Family] = []
    private(set) var calls: [TokenCall] = []
    private var codes: [String: Family?] = [:]
    /// The person who agreed to each code.
    private var people: [String: Int] = [:]
    /// The codes that were sent a second time, although the provider may have performed the first call.
    private(set) var codesCalledTwice: Set<String> = []
    private var verifiers: [String: Secret] = [:]
    private var nextCode = 0
    /// The thumbprints of logins' keys, in `pushed` by state and in `keys` by code.
    ///
    /// A code has to be redeemed with its login's key.
    private var pushed: [String: String] = [:]
    private var keys: [String: String] = [:]
    /// The number of the newest nonce, which is the only nonce that the provider accepts.
    private var nonce = 1
    /// The number of the newest certificate that the provider accepts.
    var acceptedCertificate = 1
    private var attempts: [TokenCall] = []
    private var proven: [TokenCall] = []

    /// Returns a session's present grant.
    var standing: (Digest) -> Family? = { _ in nil }

    init(rotation: Weather.Rotation) { self.rotation = rotation }

    /// A user's step-up sign-in for a session.
    private struct StepUp {
        let session: Digest
        /// Whether the answer contains a refresh token, and whether that token is the one of the session's grant.
        let (givesToken, repeatsToken): (Bool, Bool)
        /// Whether the answer repeats the grant's newest refresh token, which the broker may still have to store.
        let repeatsNewest: Bool
        /// Whether the sign-in is weaker than demanded, or another person's.
        let (isWeak, isStrangers): (Bool, Bool)
    }

    /// The codes of step-ups.
    private var stepUps: [String: StepUp] = [:]

    /// Returns a new code for a session's user, as if the user had signed in again for the session.
    func stepUp(
        _ person: Int, of session: Digest, givesToken: Bool, repeatsToken: Bool, repeatsNewest: Bool,
        isWeak: Bool = false, isStrangers: Bool = false
    ) -> String {
        let code = consent(isStrangers ? nil : person)
        stepUps[code] = StepUp(
            session: session, givesToken: givesToken, repeatsToken: repeatsToken && !isStrangers,
            repeatsNewest: repeatsNewest, isWeak: isWeak, isStrangers: isStrangers)
        return code
    }

    /// Returns the session that a code's sign-in is for; nil for a code that makes a session.
    func session(of code: String) -> Digest? { stepUps[code]?.session }

    /// Returns a new code, as if this person had agreed; nil means a new person.
    func consent(_ person: Int? = nil) -> String {
        nextCode += 1
        let code = "code-\(nextCode)"
        codes[code] = .some(nil)
        people[code] = person ?? 1_000 + nextCode
        return code
    }

    /// Notes a call that leaves a process.
    func send(_ call: TokenCall) {
        if let code = call.code,
            calls.contains(where: { $0.code == code && !$0.mayBeRepeated })
        {
            codesCalledTwice.insert(code)
        }
        if let session = call.code.flatMap(session(of:)), let own = standing(session) {
            call.tokenOfSession = newestWritten(of: own)
        }
        if let rest = call.process.cutOffFor, !call.isExchange { call.struck = .cutOff(rest) }
        calls.append(call)
    }

    /// Notes that a process is about to send a refresh token, even if the call is then held up.
    func attempt(_ call: TokenCall) { attempts.append(call) }

    /// Notes that a process is about to make a call with a proof, even if the call is then held up.
    func prove(_ call: TokenCall) { proven.append(call) }

    /// Returns whether a process has repeated a call that was refused because of its nonce, with the nonce from the refusal.
    func hasRepeated(_ call: TokenCall) -> Bool {
        proven.contains {
            $0.process === call.process && $0.code == call.code && (call.code != nil || $0.family === call.family)
                && $0.isRepeat && $0.nonce == call.given && $0.sentAt >= call.sentAt
        }
    }

    /// Returns whether a process has made the confirming call after a lost answer.
    func hasConfirmed(_ call: TokenCall) -> Bool {
        attempts.contains {
            $0.process === call.process && $0.family === call.family && $0.token == call.token && $0.isConfirming
                && $0.sentAt >= call.sentAt
        }
    }

    /// Notes the verifier that fits a code's challenge, and is required to redeem the code (RFC 7636 section 4.6).
    func bind(_ code: String, to verifier: Secret?) { verifiers[code] = verifier }

    // MARK: Tokens for a key

    /// Notes the key that a login was begun with (`dpop_jkt`).
    func begin(_ state: Secret, key: String?) { pushed[state.reveal()] = key }

    /// Notes the login that a code belongs to, because only that login's key may redeem the code.
    func bind(_ code: String, toLoginOf state: Secret) { keys[code] = pushed[state.reveal()] }

    /// The nonce that the provider accepts now.
    var newestNonce: String { "nonce-\(nonce)" }

    /// Makes all earlier nonces useless.
    func forgetNonces() { nonce += 1 }

    /// Returns whether a code may be redeemed with a key.
    func mayRedeem(_ code: String, key: String?) -> Bool { keys[code].map { $0 == key } ?? true }

    /// Returns whether any call sent this verifier with a code.
    func wasSent(_ verifier: Secret?) -> Bool {
        verifier.map { own in calls.contains { $0.verifier?.reveal() == own.reveal() } } ?? false
    }

    /// Redeems a code.
    func redeem(_ code: String, verifier: Secret?) throws(ProviderFailure) -> Family {
        if let own = verifiers[code], own.reveal() != verifier?.reveal() {
            throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
        }
        guard let used = codes[code], used == nil else {
            (codes[code] ?? nil)?.death = .reuse
            throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
        }
        let family = Family(number: families.count, code: code, person: people[code] ?? -1)
        if let stepUp = stepUps[code] {
            family.isStepUp = true
            (family.isWeak, family.isStrangers) = (stepUp.isWeak, stepUp.isStrangers)
            family.hasNoRefreshToken = !stepUp.givesToken || stepUp.repeatsToken
            if stepUp.repeatsToken { family.repeated = repeated(stepUp, code) }
        }
        families.append(family)
        codes[code] = family
        return family
    }

    /// Returns the refresh token that a step-up's answer repeats; nil if the grant is dead.
    ///
    /// The token is either the provider's newest, or the token that the session had when the code was sent.
    private func repeated(_ stepUp: StepUp, _ code: String) -> String? {
        guard let own = standing(stepUp.session), own.death == nil else { return nil }
        if stepUp.repeatsNewest { return "rt-\(own.number)-\(own.current)" }
        guard
            let sent = calls.first(where: { $0.code == code && !$0.mayBeRepeated }), let had = sent.tokenOfSession
        else { return nil }
        return "rt-\(own.number)-\(had)"
    }

    /// Returns whether a step-up's answer has repeated this refresh token of another grant.
    func hasRepeated(_ refreshToken: String) -> Bool { families.contains { $0.repeated == refreshToken } }

    /// Rotates a refresh token; returns the number of the new token.
    func refresh(_ family: Family, token: Int, key: String) throws(ProviderFailure) -> Int {
        let refusal = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_grant"))
        if family.death != nil { throw refusal }
        if token == family.current {
            family.current += 1
            family.lastAnswer = (key, family.current)
            return family.current
        }
        switch rotation {
        case .replayed:
            if let last = family.lastAnswer, last.key == key { return last.token }
            throw refusal
        case .refused: throw refusal
        case .reuseDetected:
            family.death = .reuse
            throw refusal
        }
    }

    /// Returns the grant of a redeemed code.
    func family(of code: String) -> Family? { codes[code] ?? nil }

    /// Returns the grant and the number that a token's text names.
    func named(_ text: String) -> (family: Family, token: Int)? {
        // A token for another API has the API's name after an `@`.
        let parts = (text.split(separator: "@").first ?? "").split(separator: "-")
        guard parts.count == 3, let family = Int(parts[1]), let token = Int(parts[2]), family < families.count else {
            return nil
        }
        return (families[family], token)
    }

    /// Returns the scope that came with an access token of a session's own, if the provider names scopes.
    func scope(of accessToken: String) -> [String]? {
        guard let (family, token) = named(accessToken), !family.hasNoRefreshToken else { return nil }
        return family.scopes[token]
    }

    /// Ends a grant at the broker's request, and all other grants that such a revocation ends (`reach`).
    func revoke(_ family: Family, _ reach: RevocationReach, isKnown: (Family) -> Bool) {
        for other in families where other === family || (reach == .user && other.person == family.person) {
            guard other.death == nil else { continue }
            other.death = .revokedByBroker
            other.isRevokedUnseen = !isKnown(other)
        }
    }

    /// Notes that a process died, paused or was cut off from the store, so its calls' results may be lost before their commit.
    func strike(_ process: SimulatedProcess, _ mishap: Family.Mishap) {
        for call in calls where call.process === process && call.isOpen && !call.isExchange {
            call.struck = mishap
        }
    }

    /// Notes that a refresh token is in the store; `inVain` if it is stored for its revocation only.
    func wrote(_ refreshToken: String, at moment: Int, inVain: Bool = false) {
        guard let (family, token) = named(refreshToken) else { return }
        var underway = false
        for call in calls where call.family === family {
            switch call.state {
            case .delivered(token): call.state = .written
            case .sent where call.sentAt > moment - 40_000: underway = true
            default: break
            }
        }
        // The grant lives, and no call is in progress whose result may be lost, so its earlier mishaps no longer count.
        if family.death == nil, !underway, !inVain {
            family.mishaps = []
            family.hasLostTarget = false
        }
        written.insert(refreshToken)
    }

    /// Returns the number of a grant's newest refresh token in the store.
    private func newestWritten(of family: Family) -> Int? {
        (0...family.current).last { written.contains("rt-\(family.number)-\($0)") }
    }

    /// The refresh tokens that a session row or the outbox has held.
    private(set) var written: Set<String> = []
}
