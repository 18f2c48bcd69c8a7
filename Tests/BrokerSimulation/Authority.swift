import Broker

/// The provider itself, with its codes, its grants and the calls that reached it.
final class Authority: @unchecked Sendable {
    let rotation: Weather.Rotation
    private(set) var families: [Family] = []
    private(set) var calls: [TokenCall] = []
    private var codes: [String: Family?] = [:]
    /// The person who signed in for each code.
    private var people: [String: Int] = [:]
    /// The codes that a process sent a second time, although the provider may have carried out the first call.
    private(set) var codesCalledTwice: Set<String> = []
    private var verifiers: [String: Secret] = [:]
    private var nextCode = 0
    /// The thumbprint of each login's key: `pushed` has it by the login's state, and `keys` by the login's code.
    ///
    /// A code can be redeemed only with the key of its login.
    private var pushed: [String: String] = [:]
    private var keys: [String: String] = [:]
    /// The number of the newest nonce.
    ///
    /// The provider accepts only this nonce.
    private var nonce = 1
    /// The number of the newest client certificate that the provider accepts.
    var acceptedCertificate = 1
    private var attempts: [TokenCall] = []
    private var proven: [TokenCall] = []

    /// Returns the present grant of a session in the broker.
    var standing: (Digest) -> Family? = { _ in nil }

    init(rotation: Weather.Rotation) { self.rotation = rotation }

    /// A sign-in of a user to step an existing session up.
    private struct StepUp {
        let session: Digest
        /// Whether the answer to the code has a refresh token (`givesToken`), and whether it repeats the refresh token of the
        /// session's grant (`repeatsToken`).
        let (givesToken, repeatsToken): (Bool, Bool)
        /// Whether the repeated token is the newest of the session's grant at the provider, which the broker may not have
        /// stored yet.
        let repeatsNewest: Bool
        /// Whether the sign-in is weaker than the demand (`isWeak`), or another person's (`isStrangers`).
        let (isWeak, isStrangers): (Bool, Bool)
    }

    /// The step-up that each code belongs to.
    private var stepUps: [String: StepUp] = [:]

    /// Returns a new code for stepping a session up, as if a user had signed in again.
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

    /// Returns the session that a code steps up; nil for the code of a login that makes a new session.
    func session(of code: String) -> Digest? { stepUps[code]?.session }

    /// Returns a new code, as if this person had signed in.
    ///
    /// Pass nil for a new person.
    func consent(_ person: Int? = nil) -> String {
        nextCode += 1
        let code = "code-\(nextCode)"
        codes[code] = .some(nil)
        people[code] = person ?? 1_000 + nextCode
        return code
    }

    /// Returns the refresh token of a new grant that a new person gave to an app directly.
    func grantToApp() -> String {
        nextCode += 1
        let family = Family(number: families.count, code: "import-\(nextCode)", person: 1_000 + nextCode)
        families.append(family)
        return "rt-\(family.number)-0"
    }

    /// Notes a call that a process sends to the provider.
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

    /// Notes that a process is about to send a refresh token.
    ///
    /// The call may still be delayed on its way.
    func attempt(_ call: TokenCall) { attempts.append(call) }

    /// Notes that a process is about to make a call with a proof.
    ///
    /// The call may still be delayed on its way.
    func prove(_ call: TokenCall) { proven.append(call) }

    /// Returns whether a process has repeated this call with the right nonce, after the provider had refused the call's nonce.
    func hasRepeated(_ call: TokenCall) -> Bool {
        proven.contains {
            $0.process === call.process && $0.code == call.code && (call.code != nil || $0.family === call.family)
                && $0.isRepeat && $0.nonce == call.given && $0.sentAt >= call.sentAt
        }
    }

    /// Returns whether a process has made the retry that follows the lost answer to this call.
    func hasConfirmed(_ call: TokenCall) -> Bool {
        attempts.contains {
            $0.process === call.process && $0.family === call.family && $0.token == call.token && $0.isConfirming
                && $0.sentAt >= call.sentAt
        }
    }

    /// Notes the PKCE verifier that a caller needs to redeem a code (RFC 7636 section 4.6).
    func bind(_ code: String, to verifier: Secret?) { verifiers[code] = verifier }

    // MARK: Tokens for a key

    /// Notes the key that a login was started with (`dpop_jkt`).
    func begin(_ state: Secret, key: String?) { pushed[state.reveal()] = key }

    /// Notes that a code belongs to a login, because only the login's key may redeem the code.
    func bind(_ code: String, toLoginOf state: Secret) { keys[code] = pushed[state.reveal()] }

    /// The only nonce that the provider accepts now.
    var newestNonce: String { "nonce-\(nonce)" }

    /// Makes the provider refuse all nonces that it has issued so far.
    func forgetNonces() { nonce += 1 }

    /// Returns whether a caller with this key may redeem a code.
    func mayRedeem(_ code: String, key: String?) -> Bool { keys[code].map { $0 == key } ?? true }

    /// Returns whether any process has sent this verifier with a code.
    func wasSent(_ verifier: Secret?) -> Bool {
        verifier.map { own in calls.contains { $0.verifier?.reveal() == own.reveal() } } ?? false
    }

    /// Redeems a code, and returns the grant that begins with it.
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

    /// Returns the refresh token that the answer to a step-up's code repeats; nil if the session's grant is dead.
    ///
    /// The token is either the newest of this grant at the provider, or the one that the session had when the code was sent.
    private func repeated(_ stepUp: StepUp, _ code: String) -> String? {
        guard let own = standing(stepUp.session), own.death == nil else { return nil }
        if stepUp.repeatsNewest { return "rt-\(own.number)-\(own.current)" }
        guard
            let sent = calls.first(where: { $0.code == code && !$0.mayBeRepeated }), let had = sent.tokenOfSession
        else { return nil }
        return "rt-\(own.number)-\(had)"
    }

    /// Returns whether the answer to a step-up's code has repeated this refresh token.
    func hasRepeated(_ refreshToken: String) -> Bool { families.contains { $0.repeated == refreshToken } }

    /// Replaces a grant's refresh token by a new one, and returns the number of the new token.
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

    /// Returns the grant that began with a code; nil if the code was not redeemed.
    func family(of code: String) -> Family? { codes[code] ?? nil }

    /// Returns the grant and the number in the text of a token.
    func named(_ text: String) -> (family: Family, token: Int)? {
        // If the token is for another API, its text ends with `@` and the API's name.
        let parts = (text.split(separator: "@").first ?? "").split(separator: "-")
        guard parts.count == 3, let family = Int(parts[1]), let token = Int(parts[2]), family < families.count else {
            return nil
        }
        return (families[family], token)
    }

    /// Returns the scope that came with an access token for a session's own API, if the provider names scopes.
    func scope(of accessToken: String) -> [String]? {
        guard let (family, token) = named(accessToken), !family.hasNoRefreshToken else { return nil }
        return family.scopes[token]
    }

    /// Ends a grant because the broker revoked it.
    ///
    /// `reach` decides whether all grants of the person end, too.
    func revoke(_ family: Family, _ reach: RevocationReach, isKnown: (Family) -> Bool) {
        for other in families where other === family || (reach == .user && other.person == family.person) {
            guard other.death == nil else { continue }
            other.death = .revokedByBroker
            other.isRevokedUnseen = !isKnown(other)
        }
    }

    /// Notes that a process died, was paused, or was cut off from the store.
    ///
    /// The results of its calls may be lost before their commit.
    func strike(_ process: SimulatedProcess, _ mishap: Family.Mishap) {
        for call in calls where call.process === process && call.isOpen && !call.isExchange {
            call.struck = mishap
        }
    }

    /// Notes that a refresh token is in the store.
    ///
    /// `inVain` means that it is in the outbox, only to be revoked.
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
        // A token of the living grant was stored, and no call of the last 40 s is unanswered. So the earlier mishaps of the
        // grant lost nothing, and no longer count.
        if family.death == nil, !underway, !inVain {
            family.mishaps = []
            family.hasLostTarget = false
        }
        written.insert(refreshToken)
    }

    /// Returns the number of the newest refresh token of a grant that was written to the store.
    private func newestWritten(of family: Family) -> Int? {
        (0...family.current).last { written.contains("rt-\(family.number)-\($0)") }
    }

    /// All refresh tokens that were ever written into a session's row or into the outbox.
    private(set) var written: Set<String> = []
}
