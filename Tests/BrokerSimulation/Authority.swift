import Broker

/// The provider itself: its codes, its grants and what it was asked.
final class Authority: @unchecked Sendable {
    let rotation: Weather.Rotation
    private(set) var families: [Family] = []
    private(set) var calls: [TokenCall] = []
    private var codes: [String: Family?] = [:]
    /// Codes for which a second call arrived although the first may have been performed.
    private(set) var codesCalledTwice: Set<String> = []
    private var nextCode = 0

    init(rotation: Weather.Rotation) { self.rotation = rotation }

    /// Returns a fresh code: the user has agreed.
    func consent() -> String {
        nextCode += 1
        let code = "code-\(nextCode)"
        codes[code] = .some(nil)
        return code
    }

    /// Notes a call that leaves a process.
    func send(_ call: TokenCall) {
        if let code = call.code,
            calls.contains(where: { $0.code == code && !$0.mayBeRepeated })
        {
            codesCalledTwice.insert(code)
        }
        calls.append(call)
    }

    /// Redeems a code.
    func redeem(_ code: String) throws(ProviderFailure) -> Family {
        guard let used = codes[code], used == nil else {
            (codes[code] ?? nil)?.death = .reuse
            throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
        }
        let family = Family(number: families.count, code: code)
        families.append(family)
        codes[code] = family
        return family
    }

    /// Rotates a refresh token; returns the new one's number.
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

    /// Returns the grant and the number that a token's text names.
    func named(_ text: String) -> (family: Family, token: Int)? {
        let parts = text.split(separator: "-")
        guard parts.count == 3, let family = Int(parts[1]), let token = Int(parts[2]), family < families.count else {
            return nil
        }
        return (families[family], token)
    }

    /// Notes that a process died or stood still: what it had between a call and its commit may be lost.
    func strike(_ process: SimulatedProcess, _ mishap: Family.Mishap) {
        for call in calls where call.process === process && call.isOpen {
            if let family = call.family { family.mishaps.append(mishap) } else { call.struck = mishap }
        }
    }

    /// Notes that tokens are in the store, `inVain` when only to be revoked.
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
        // What was lost before is overcome.
        if family.death == nil, !underway, !inVain { family.mishaps = [] }
        written.insert(refreshToken)
    }

    /// The refresh tokens that a session row or the outbox has held.
    private(set) var written: Set<String> = []
}
