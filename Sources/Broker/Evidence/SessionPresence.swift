/// The presence key of a session, with the time of its registration.
package struct SessionPresence: Sendable, Equatable {
    /// The key's thumbprint (RFC 7638).
    package let thumbprint: Digest
    package let registeredAt: WallTime

    package init(thumbprint: Digest, registeredAt: WallTime) {
        self.thumbprint = thumbprint
        self.registeredAt = registeredAt
    }

    /// The thumbprint in base64url, in the form that RFC 9449 section 6.1 defines.
    package var jkt: String { Base64URL.encode(thumbprint.bytes) }
}

extension SessionPresence {
    private static let format: UInt8 = 1

    /// The bytes that are sealed and stored in the session's row.
    package var record: [UInt8] {
        var writer = RecordWriter(format: Self.format)
        writer.string(jkt)
        writer.integer(registeredAt.milliseconds)
        return writer.bytes
    }

    /// Reads the bytes that were sealed in a session's row.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var reader = try RecordReader(bytes, format: Self.format)
        guard let thumbprint = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        self.init(thumbprint: thumbprint, registeredAt: WallTime(milliseconds: try reader.integer()))
    }
}

extension ResumeSession {
    /// Returns the presence key of a session, after opening its sealed value; nil if the session has no presence key.
    ///
    /// If the sealed value was tampered with, the session ends, as for every sealed value of a session.
    package func presence(of session: LiveSession) throws(BrokerProblem) -> SessionPresence? {
        try session.row.presence.map { stored throws(BrokerProblem) in try open(stored, of: session.row) }
    }

    /// Opens a sealed presence key.
    ///
    /// `row` may be an older state of the session, from before the key was stored.
    func open(_ stored: StoredPresence, of row: SessionRow) throws(BrokerProblem) -> SessionPresence {
        do {
            return try SessionPresence(
                record: try context.vault.open(stored.sealed, as: .presence, row: row.tokenDigest))
        } catch {
            throw wasChanged(row, .presence, error)
        }
    }

    /// Returns the session object for the session's owner, including the presence key.
    package func view(of session: LiveSession) throws(BrokerProblem) -> SessionView {
        var view = session.view
        view.presence = try presence(of: session)
        return view
    }
}
