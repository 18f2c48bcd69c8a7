import Synchronization

/// The course of an import that an operator makes to test a client's settings.
///
/// The import ends before its session is made. Its calls and rows are those of an app's import (decision 102).
final class ImportTrial: Sendable {
    /// The steps that the import has reached.
    struct Course: Sendable {
        /// Whether the provider has granted tokens.
        var isGranted = false
        /// The failure of the last step.
        var failure: ProviderFailure?
        /// Whether granted tokens stay in the store after the failure.
        var isKept = false
        /// The user, as soon as the end of the import is stored.
        var subject: String?
    }

    private let state = Mutex(Course())

    /// The steps so far.
    var course: Course { state.withLock { $0 } }

    func noteGrant() { state.withLock { $0.isGranted = true } }

    func note(_ failure: ProviderFailure) { state.withLock { $0.failure = failure } }

    /// Notes the failure of an import that the broker releases.
    func noteReleased(_ failure: ProviderFailure) {
        state.withLock { course in
            course.failure = failure
            course.isKept = course.isGranted
        }
    }

    func note(subject: String) { state.withLock { $0.subject = subject } }
}

extension ExchangeSettlement {
    /// Ends a trial whose user is known, and throws the answer that an app gets for its token from now on.
    ///
    /// The pair goes to the revocation outbox, because an app for its session is missing. If the provider has only confirmed
    /// the app's own tokens, they stay valid, and the row is released.
    func end(_ trial: ImportTrial, _ tokens: TokenSet, of subject: String, isPair: Bool) async throws(BrokerProblem) {
        if isPair {
            if let problem = await writeRevoking(.grantRevoked, tokens) { throw problem }
        } else {
            await letGo(ImportRelease(calls: 0))
        }
        trial.note(subject: subject)
        throw BrokerProblem(spent: .grantRevoked)
    }
}
