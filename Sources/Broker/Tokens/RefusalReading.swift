/// Reads the next event of a refresh from the provider's failure (guarantee 2).
///
/// The type contains the rules that decide whether a refusal may end a session. The rules are pure, and each has a row in the
/// tests' table.
struct RefusalReading: Sendable {
    let call: RefreshCall
    /// Whether the call is the one retry after a lost or unclear answer.
    let isConfirming: Bool
    /// Whether a request before this answer may have spent the refresh token.
    let mayBeSpent: Bool
    /// Whether the refusals that may mean a dead grant are enough, in number and time, to end the session.
    let isEnough: Bool
    /// Whether the session has a refresh token, so that a plain refresh can show whether the grant is dead.
    let hasRefreshToken: Bool

    func input(for failure: ProviderFailure) -> RefreshStateMachine.Input {
        switch failure {
        case .notSent: .notSent
        case .retryable: .retryable
        case .unusable, .identityRejected: .unusable
        case .lost: .lost
        case .rejected(let refusal): call.spendsToken ? refreshRefused(refusal) : exchangeRefused(refusal)
        }
    }

    private func refreshRefused(_ refusal: OAuthError) -> RefreshStateMachine.Input {
        if refusal.isAboutProof { return .unusable }
        if !call.provesGrant, refusal.isAboutTarget { return .rejected(.target) }
        // Keep this rule before all rules that end the session. A refusal with a `doubt` may concern the proof or the
        // certificate, so the grant may live. The result of another call now would be just as unclear.
        if refusal.doubt != nil, refusal.mayMeanDeadGrant { return .rejected(.counted(enough: isEnough)) }
        if refusal.isInvalidGrant {
            // The server that refused the nonce may have spent the refresh token before its refusal. This refusal therefore
            // counts as a lost answer.
            if mayBeSpent, !isConfirming { return .lost }
            return .rejected(refusal.isOfOldProof ? .unclear : .invalidGrant)
        }
        return .rejected(refusal.mayMeanDeadGrant ? .counted(enough: isEnough) : .unclear)
    }

    private func exchangeRefused(_ refusal: OAuthError) -> RefreshStateMachine.Input {
        if refusal.isAboutProof { return .unusable }
        // A client that may refresh tokens but not exchange them may also get this code. The client's refreshes are judged
        // separately.
        if refusal.isAboutTarget || refusal.code == "invalid_client" { return .rejected(.target) }
        if refusal.isInvalidGrant || refusal.mayMeanDeadGrant {
            // A plain refresh can show whether the grant is dead. Without a refresh token, the refusal counts as a refusal of the
            // target.
            return .rejected(hasRefreshToken ? .invalidGrant : .target)
        }
        return .rejected(.unclear)
    }
}
