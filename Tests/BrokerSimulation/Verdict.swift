/// The numbers of faults that were found in one or more runs.
///
/// All numbers except `beyondSaving` have to be zero.
package struct Verdict: Sendable, Equatable {
    package var wrongfulLogOuts = 0
    package var codesCalledTwice = 0
    package var pairsThrownAway = 0
    /// The number of sign-ins that were lost, although a process had received the provider's tokens.
    package var signInsLost = 0
    package var endedSessionsAlive = 0
    package var answeredWritesLost = 0
    /// The number of broken promises that users do not notice at once (`Rules`).
    package var rulesBroken = 0
    /// The number of sessions that ended with `refresh_lost`, where no broker could have kept the session after a mishap or
    /// lost answer.
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

    /// The last line that the simulation prints.
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
