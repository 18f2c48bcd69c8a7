/// Hands a session over to the app's web view: issues a ticket, and exchanges it for a child session of kind `web`.
///
/// The ticket is useless without a secret, which the app puts into the web view's own cookie store. So it is harmless if the
/// address with the ticket is copied, opened by a scanner or sent to another person. An attacker's own ticket cannot sign a
/// victim in either, because the victim's browser lacks the secret.
package struct HandOver: Sendable {
    /// The largest number of tickets that a session may request in a minute.
    package static let tickets = 8

    private let context: BrokerContext
    private let publicURL: String
    private let ownOrigin: String

    /// Creates the use case; `publicURL` has no trailing slash.
    init(_ context: BrokerContext, publicURL: String) {
        self.context = context
        self.publicURL = publicURL
        ownOrigin = ProofAddress(publicURL)?.origin ?? publicURL
    }

    // MARK: The ticket

    /// Returns a ticket with which the app's web view opens a page of the session's client, signed in as the session's user.
    package func begin(
        _ order: HandoverOrder, of parent: LiveSession, charge: Charge = .nobody
    ) async throws(BrokerProblem) -> IssuedTicket {
        guard try policy(of: parent).origins.contains(order.origin) else {
            throw BrokerProblem(
                .invalidRequest, detail: "The client has no page at this origin.",
                with: .fields([FieldFault("/origin", .notAllowed)]))
        }
        try context.requireRing()
        try context.require(.begin)
        try charge.takeChild()
        let now = context.clock.now()
        let expiresAt = now.advanced(by: context.settings.handoffLifetime)
        do {
            let ticket = try context.vault.randomToken()
            let key = key(of: ticket)
            let secrets = HandoverSecrets(
                parent: parent.tokenDigest, origin: order.origin, path: order.path, challenge: order.challenge,
                keyID: context.vault.currentKeyID, salt: try context.vault.random(32))
            let sealed = try context.vault.seal(secrets.record, as: .outcome, row: key)
            for slot in 0..<Self.tickets {
                let place = context.vault.index(
                    .handoverSlot, [Base64URL.encode(parent.tokenDigest.bytes), String(slot)])
                if let standing = try await context.store.handoff(login: place), now < standing.expiresAt { continue }
                let row = HandoffRow(
                    login: place, key: key, createdAt: now, expiresAt: expiresAt, keptUntil: expiresAt, sealed: sealed)
                guard try await context.store.keepHandoff(row) else { continue }
                return IssuedTicket(url: address(ticket, order), expiresAt: expiresAt)
            }
        } catch { throw BrokerProblem(storing: error) }
        throw BrokerProblem(
            .rateLimited, privateDetail: "tickets of a session", retryAfter: context.settings.handoffLifetime)
    }

    private func policy(of parent: LiveSession) throws(BrokerProblem) -> ChildPolicy {
        let client = context.providers[parent.facts.provider]?.profile.client(parent.facts.client)
        guard let policy = client?.children[.web] else {
            throw BrokerProblem(.clientNotAllowed, privateDetail: "the client has no `children: {web}`")
        }
        return policy
    }

    private func key(of ticket: Secret) -> Digest { context.vault.index(.handoverTicket, [ticket.reveal()]) }

    private func address(_ ticket: Secret, _ order: HandoverOrder) -> Secret {
        guard order.origin != ownOrigin else { return Secret("\(publicURL)/handover/\(ticket.reveal())") }
        let mark = order.path.contains("?") ? "&" : "?"
        return Secret("\(order.origin)\(order.path)\(mark)handover=\(ticket.reveal())")
    }

    // MARK: Looking and spending

    /// Checks a ticket without spending it.
    ///
    /// Throws `handover_expired` if the ticket is unknown or expired, if it is for a backend's origin, or if its session is
    /// over.
    ///
    /// The owner of the session is not revealed.
    package func look(_ ticket: Secret) async throws(BrokerProblem) {
        let secrets = try await secrets(of: ticket)
        guard secrets.origin == ownOrigin else { throw BrokerProblem(.handoverExpired) }
        _ = try await parent(of: secrets)
    }

    /// Exchanges a ticket of the broker's own origin for a web child, using the secret in the browser's cookie.
    ///
    /// While the ticket is valid, the same secret gets the same child again.
    ///
    /// `held` are the session tokens in the browser's cookies. If one of them belongs to a living session of another user, the
    /// call throws `other_session`.
    package func spend(
        _ ticket: Secret, verifier: Secret?, held: [Secret]
    ) async throws(BrokerProblem) -> HandedOver {
        let secrets = try await secrets(of: ticket)
        guard secrets.origin == ownOrigin else { throw BrokerProblem(.handoverExpired) }
        let parent = try await parent(of: secrets)
        let proof = try proof(verifier, secrets)
        let older = try await webChild(among: held, of: parent)
        let made = try await spend(ticket, secrets, proof, parent)
        if let older, older.handle != made.child.session.handle {
            _ = try await EndSession(context).end(.token(older.tokenDigest), reason: .replaced, handle: older.handle)
        }
        return made
    }

    /// Exchanges a ticket for a web child at a backend of the ticket's origin.
    ///
    /// `admits` throws unless the backend may ask about the client's sessions. `isOwn` returns whether an origin belongs to
    /// the backend. A ticket for another origin counts as unknown.
    package func redeem(
        _ ticket: Secret, verifier: Secret, isOwn: (String) -> Bool,
        admits: (LiveSession) throws(BrokerProblem) -> Void
    ) async throws(BrokerProblem) -> HandedOver {
        let secrets = try await secrets(of: ticket)
        guard secrets.origin != ownOrigin, isOwn(secrets.origin) else { throw BrokerProblem(.handoverExpired) }
        let parent = try await parent(of: secrets)
        do throws(BrokerProblem) { try admits(parent) } catch { throw BrokerProblem(.handoverExpired) }
        return try await spend(ticket, secrets, try proof(verifier, secrets), parent)
    }

    /// Returns the secret if it matches the ticket.
    ///
    /// Only a request with the secret spends the ticket, because link scanners also send POST.
    ///
    /// A secret of fewer than 43 characters is always refused, because it could be guessed.
    private func proof(_ verifier: Secret?, _ secrets: HandoverSecrets) throws(BrokerProblem) -> Secret {
        guard let verifier, Base64URL.isToken(verifier.reveal(), length: 43...128),
            context.vault.digest(verifier) == secrets.challenge
        else {
            throw BrokerProblem(
                .verifierMismatch,
                detail: "The secret is missing, belongs to another ticket, or is not 43 to 128 characters of base64url."
            )
        }
        return verifier
    }

    private func spend(
        _ ticket: Secret, _ secrets: HandoverSecrets, _ proof: Secret, _ parent: LiveSession
    ) async throws(BrokerProblem) -> HandedOver {
        let policy = try policy(of: parent)
        try context.requireRing()
        let token: Secret
        do throws(VaultFailure) {
            token = try context.vault.sessionToken(keyID: secrets.keyID, salt: secrets.salt, proof: proof)
        } catch { throw BrokerProblem(error) }
        let digest = context.vault.digest(token)
        let standing: SessionRow?
        do throws(StoreFailure) { standing = try await context.store.session(tokenDigest: digest) } catch {
            throw BrokerProblem(error)
        }
        if standing == nil {
            let order = ChildOrder(kind: .web, name: Base64URL.encode(Array(key(of: ticket).bytes.prefix(16))))
            try await MakeChild(context).insertWeb(order, token: digest, of: parent, policy)
        }
        let child: LiveSession
        do throws(BrokerProblem) { child = try await ResumeSession(context: context).resume(digest) } catch {
            // A repeated request gets the same child as long as the child lives. If the child has ended, the ticket counts as
            // expired.
            throw error.isOver ? BrokerProblem(.handoverExpired) : error
        }
        return HandedOver(child: SignedIn(child: child, token: token), path: secrets.path, sameSite: policy.sameSite)
    }

    /// Returns the web child of the same user that the browser has, if it is alive.
    ///
    /// Throws `other_session` for a living session of another user. If the subject is a shop, another device counts as another
    /// user.
    private func webChild(among held: [Secret], of parent: LiveSession) async throws(BrokerProblem) -> SessionRow? {
        var own: SessionRow?
        for token in held where Base64URL.isToken(token.reveal(), length: 43...43) {
            guard let row = try await living(context.vault.digest(token)) else { continue }
            let isSame =
                parent.ownsItselfAlone(context)
                ? (row.lineage?.parent ?? row.tokenDigest) == parent.tokenDigest : row.subject == parent.row.subject
            guard isSame else { throw BrokerProblem(.otherSession) }
            if (try? SessionFacts.open(row, context.vault))?.child?.kind == .web { own = row }
        }
        return own
    }

    /// Returns the row of a living session, even if its client has left the configuration.
    ///
    /// The check must not overlook such a session, because it still belongs to a user.
    private func living(_ tokenDigest: Digest) async throws(BrokerProblem) -> SessionRow? {
        do throws(BrokerProblem) { try await ResumeSession(context: context).checkLives(tokenDigest) } catch {
            if error.isOver { return nil }
            throw error
        }
        do throws(StoreFailure) {
            let row = try await context.store.session(tokenDigest: tokenDigest)
            return row?.endedAt == nil ? row : nil
        } catch { throw BrokerProblem(error) }
    }

    private func secrets(of ticket: Secret) async throws(BrokerProblem) -> HandoverSecrets {
        guard Base64URL.isToken(ticket.reveal(), length: 43...43) else { throw BrokerProblem(.handoverExpired) }
        // A wrong clock could make the ticket expire too early, or give the child wrong times. So refuse the ticket while the
        // clock is in doubt.
        try context.require(.begin)
        let key = key(of: ticket)
        do {
            guard let row = try await context.store.handoff(key), context.clock.now() < row.expiresAt else {
                throw BrokerProblem(.handoverExpired)
            }
            return try HandoverSecrets(record: try context.vault.open(row.sealed, as: .outcome, row: key))
        } catch VaultFailure.doesNotOpen { throw BrokerProblem(.handoverExpired) } catch RecordFailure.malformed {
            throw BrokerProblem(.handoverExpired)
        } catch { throw BrokerProblem(opening: error) ?? BrokerProblem(storing: error) }
    }

    private func parent(of secrets: HandoverSecrets) async throws(BrokerProblem) -> LiveSession {
        do throws(BrokerProblem) { return try await ResumeSession(context: context).resume(secrets.parent) } catch {
            throw error.isOver ? BrokerProblem(.handoverExpired) : error
        }
    }
}

extension BrokerProblem {
    /// Whether the problem means that a session is over or unknown.
    fileprivate var isOver: Bool { code == .sessionEnded || code == .sessionRequired }
}

/// The sealed values of a ticket.
struct HandoverSecrets: Sendable {
    var parent: Digest
    var origin: String
    var path: String
    var challenge: Digest
    /// The id of the ring's key; the child's token is derived from this key, the salt and the app's secret (decision 4).
    var keyID: String
    var salt: [UInt8]

    private static let format: UInt8 = 1

    var record: [UInt8] {
        var writer = RecordWriter(format: Self.format)
        writer.string(Base64URL.encode(parent.bytes))
        writer.string(origin)
        writer.string(path)
        writer.string(Base64URL.encode(challenge.bytes))
        writer.string(keyID)
        writer.string(Base64URL.encode(salt))
        return writer.bytes
    }

    init(parent: Digest, origin: String, path: String, challenge: Digest, keyID: String, salt: [UInt8]) {
        self.parent = parent
        self.origin = origin
        self.path = path
        self.challenge = challenge
        self.keyID = keyID
        self.salt = salt
    }

    init(record bytes: [UInt8]) throws(RecordFailure) {
        var reader = try RecordReader(bytes, format: Self.format)
        guard let parent = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        let origin = try reader.string()
        let path = try reader.string()
        guard let challenge = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        let keyID = try reader.string()
        guard let salt = Base64URL.decode(try reader.string()) else { throw .malformed }
        self.init(parent: parent, origin: origin, path: path, challenge: challenge, keyID: keyID, salt: salt)
    }
}
