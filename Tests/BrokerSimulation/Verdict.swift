/// The effect of one or more runs on their users.
///
/// All figures except `beyondSaving` have to be zero.
package struct Verdict: Sendable, Equatable {
    package var wrongfulLogOuts = 0
    package var codesCalledTwice = 0
    package var pairsThrownAway = 0
    /// Sign-ins whose tokens a process had received, and whose users still have to sign in again.
    package var signInsLost = 0
    package var endedSessionsAlive = 0
    package var answeredWritesLost = 0
    /// Broken promises that users do not see at once (`Rules`).
    package var rulesBroken = 0
    /// Sessions that ended with `refresh_lost` after a mishap or a lost answer that no broker could have repaired.
    package var beyondSaving = 0

    package init() {}

    package var isClean: Bool {
        wrongfulLogOuts + codesCalledTwice + pairsThrownAway + signInsLost + endedSessionsAlive + answeredWritesLost
            + rulesBroken == 0
    }

    package static func += (total: inout Verdict, one: Verdict) {
        total.wrongfulLogOuts += one.wrongfulLogOuts
        total.codesCalledTwice += one.codesCalledTwice
        total.pairsThrownAway += one.pairsThrownAway
        total.signInsLost += one.signInsLost
        total.endedSessionsAlive += one.endedSessionsAlive
        total.answeredWritesLost += one.answeredWritesLost
        total.rulesBroken += one.rulesBroken
        total.beyondSaving += one.beyondSaving
    }

    /// The line that a simulation ends with.
    package func line(seeds: Int) -> String {
        var digits = Array(String(seeds))
        for position in stride(from: digits.count - 3, to: 0, by: -3) { digits.insert(",", at: position) }
        return """
            \(String(digits)) seeds: \(wrongfulLogOuts) wrongful log-outs, \(codesCalledTwice) codes called twice, \
            \(pairsThrownAway) pairs thrown away, \(signInsLost) sign-ins lost, \(endedSessionsAlive) ended sessions alive, \
            \(answeredWritesLost) answered writes lost, \(rulesBroken) rules broken
            """
    }
}
