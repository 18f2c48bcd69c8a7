import Broker
import BrokerTestSupport

/// The texts that a `PortTrace` contains for the arguments and results of calls.
///
/// The texts are written here, and not derived from the types. So a trace stays equal if a type gets another name, or its
/// members another order.
struct TraceWords {
    let vault: SimulatedVault

    func of(_ digest: Digest) -> String { digest.bytes.prefix(4).map { String($0, radix: 16) }.joined() }

    func of(_ digests: [Digest]) -> String { "[" + digests.map(of).joined(separator: " ") + "]" }

    /// A notice to a listener of a session.
    func of(_ notice: SessionNotice, of session: Digest) -> String {
        let words =
            switch notice {
            case .tokensRefreshed: "tokens refreshed"
            case .presenceKeyChanged: "presence key changed"
            case .ended(let reason): "ended \(reason.rawValue)"
            case .superseded: "superseded"
            }
        return "\(of(session)) \(words)"
    }

    func of(_ time: WallTime?) -> String { time.map { "\($0.milliseconds - SimulatedProcess.begin)" } ?? "-" }

    func of(_ duration: Duration?) -> String { duration.map { "\($0.wholeMilliseconds)" } ?? "-" }

    private func of(_ text: Secret?) -> String { text.map { $0.reveal() } ?? "-" }

    func of(_ isTrue: Bool) -> String { isTrue ? "yes" : "no" }

    private func hash(_ bytes: [UInt8]) -> String { of(vault.digest(bytes)) }

    /// The text for a sealed value: the id of its key, a hash, and the tokens in it.
    func of(_ sealed: Sealed?, _ kind: SealedKind, _ row: Digest) -> String {
        guard let sealed else { return "-" }
        var words = "\(sealed.keyID)#\(hash(sealed.envelope))"
        if kind != .session, let bytes = try? vault.open(sealed, as: kind, row: row),
            let stored = try? StoredTokens(record: bytes)
        {
            words += "(\(of(stored.tokens)) issued \(of(stored.issuedAt)))"
        }
        return words
    }

    func of(_ tokens: TokenSet) -> String {
        [
            of(tokens.accessToken), of(tokens.refreshToken), of(tokens.idToken),
            tokens.scope.map { $0.joined(separator: "+") } ?? "-", of(tokens.expiresAt),
            tokens.key.map { of(vault.digest($0.pair.publicKey.x)) } ?? "-", tokens.certificate ?? "-",
        ].joined(separator: " ")
    }

    func of(_ answer: LegacyAnswer) -> String {
        switch answer {
        case .refused: "refused"
        case .session(let session): "\(session.subject ?? "-") \(of(session.refreshToken))"
        }
    }

    func of(_ row: SessionRow?) -> String {
        guard let row else { return "none" }
        return """
            tokens \(row.tokenVersion) fence \(row.fence) version \(row.version) unchecked \(of(row.subjectUnchecked)) \
            ended \(row.endReason?.rawValue ?? "-") used \(of(row.lastUsedAt)) ends \(of(row.idleExpiresAt)) \
            \(of(row.expiresAt)) tokens end \(of(row.tokenExpiresAt)) refreshable \(of(row.refreshable)) facts \
            \(of(row.facts, .session, row.tokenDigest)) \(of(row.tokens, .tokens, row.tokenDigest))
            """
    }

    func of(_ row: TargetTokenRow?) -> String {
        guard let row else { return "none" }
        return """
            \(of(row.key)) of \(of(row.session)) version \(row.version) stored \(of(row.storedAt)) used \(of(row.usedAt)) \
            \(of(row.tokens, .targetToken, row.key))
            """
    }

    func of(_ row: OutboxRow) -> String {
        "\(of(row.id)) of \(of(row.boundTo)) at \(of(row.nextAttemptAt)) \(of(row.tokens, .tokens, row.boundTo))"
    }

    func of(_ claim: RefreshClaim) -> String {
        """
        \(of(claim.tokenDigest)) tokens \(claim.tokenVersion) name \(hash(claim.name.bytes)) for \(of(claim.lifetime)) \
        takes over \(of(claim.takesOver)) at \(of(claim.now))
        """
    }

    func of(_ result: RefreshClaimResult) -> String {
        switch result {
        case .claimed(let grant):
            """
            claimed fence \(grant.fence) taken over \(of(grant.takenOverFor)) \(of(grant.takenOverBefore)) lost \
            \(of(grant.answerLost)) refusals \(grant.emptyRefusals) for \(of(grant.emptyFor))
            """
        case .busy(let rest): "busy \(of(rest))"
        case .heldBack(let rest): "held back \(of(rest))"
        case .moved: "moved"
        case .gone: "gone"
        }
    }

    func of(_ state: RefreshState?) -> String {
        state.map { "tokens \($0.tokenVersion) claim \(of($0.claimRest)) ended \(of($0.isEnded))" } ?? "none"
    }

    func of(_ commit: RefreshCommit) -> String {
        let session = commit.tokenDigest
        return """
            \(of(session)) tokens \(commit.tokenVersion) \(of(commit.tokens, .tokens, session)) facts \
            \(of(commit.facts, .session, session)) former \(of(commit.formerFacts, .session, session)) \
            \(of(commit.formerTokens, .tokens, session)) tokens end \(of(commit.tokenExpiresAt)) refreshable \
            \(of(commit.refreshable)) ends \(of(commit.expiresAt)) unchecked \(of(commit.subjectUnchecked)) lost \
            \(of(commit.answerLost)) other \(of(commit.targetToken))
            """
    }

    func of(_ result: RefreshCommitResult) -> String {
        switch result {
        case .committed: "committed"
        case .superseded: "superseded"
        case .outgrown: "outgrown"
        case .changed: "changed"
        case .ended: "ended"
        }
    }

    func of(_ release: RefreshRelease) -> String {
        """
        \(of(release.tokenDigest)) tokens \(release.tokenVersion) fence \(release.fence) hold \(of(release.holdBack)) lost \
        \(of(release.answerLost)) empty \(of(release.emptyRefusal))
        """
    }

    func of(_ commit: StepUpCommit) -> String {
        let session = commit.tokenDigest
        return """
            \(of(session)) tokens \(commit.tokenVersion) version \(commit.version) new \(of(commit.isNewGrant)) \
            \(of(commit.tokens, .tokens, session)) facts \(of(commit.facts, .session, session)) outbox \
            \(commit.outbox.map(of).joined(separator: " "))
            """
    }

    func of(_ request: RefreshRequest) -> String {
        """
        \(of(request.refreshToken)) \(of(request.accessToken)) key \(request.idempotencyKey.prefix(8)) confirming \
        \(of(request.recovering)) proof \(request.proof.map { $0.thumbprint.prefix(8) } ?? "-") bound \
        \(of(request.isBound)) \(of(request.isCertified)) nonces \(of(request.usesNonces)) for \(of(request.target))
        """
    }

    func of(_ target: TokenTarget?) -> String {
        guard let target else { return "-" }
        return "\(target.audience ?? "")\(target.grant == .exchange ? " by exchange" : "")"
    }

    func of(_ subject: RefreshedSubject) -> String {
        switch subject {
        case .absent: "absent"
        case .subject(let name): "subject \(name)"
        case .unverifiable(_, let name): "unverifiable \(name ?? "-")"
        case .foreign: "foreign"
        }
    }

    func of(_ failure: ProviderFailure) -> String {
        switch failure {
        case .notSent: "not sent"
        case .retryable(let status, let rest, _): "retryable \(status) \(of(rest))"
        case .rejected(let refusal): "rejected \(refusal.status) \(refusal.code) old proof \(of(refusal.isOfOldProof))"
        case .unusable: "unusable"
        case .lost: "lost"
        case .identityRejected: "identity rejected"
        }
    }

    func of(_ failure: StoreFailure) -> String {
        switch failure {
        case .unavailable: "unavailable"
        case .inDoubt: "in doubt"
        case .full: "full"
        case .newerFormat: "newer format"
        }
    }

    /// The text for the broker's answer to a caller.
    func of(answer: Result<some Any, BrokerProblem>) -> String {
        switch answer {
        case .success(let token as AccessToken):
            "token \(of(token.token)) version \(token.version) until \(of(token.expiresAt)) scope \(token.scope)"
        case .success(let live as LiveSession): "session \(of(live.row))"
        case .success: "done"
        case .failure(let problem):
            """
            \(problem.code.rawValue) reason \(problem.reason?.rawValue ?? "-") retry \(of(problem.retryAfter)) \
            \(problem.providerError ?? "-")
            """
        }
    }
}
