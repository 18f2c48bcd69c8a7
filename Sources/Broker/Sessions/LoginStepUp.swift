/// The app's demand on a login's sign-in, and the session that the login steps up.
package struct LoginStepUp: Sendable, Equatable {
    package var demand: StepUpDemand
    /// The digest of the session's token; nil for a login that makes a session.
    package var session: Digest?

    package init(demand: StepUpDemand, session: Digest?) {
        self.demand = demand
        self.session = session
    }

    /// Fills the parts that the app's demand left open with the configured demands in the authorization request.
    ///
    /// The demand of a login that makes a session is returned unchanged.
    func joining(_ asked: SignInDemands) -> LoginStepUp {
        guard session != nil else { return self }
        var joined = self
        if demand.contextClasses.isEmpty { joined.demand.contextClasses = asked.contextClasses }
        if demand.maximumAge == nil { joined.demand.maximumAge = asked.maximumAge }
        return joined
    }
}

// The record of a login that steps a session up has a format of its own. A release without step-ups cannot read such a
// record, so it answers 503. If it could read the record, it would replace the session by a new session.

extension LoginStepUp {
    static let format: UInt8 = 4

    /// Writes the beginning of the record of a login that steps a session up.
    static func begin(_ session: Digest, boundTo thumbprint: Digest?, holding key: ProofKeyPair?) -> RecordWriter {
        var writer = RecordWriter(format: format)
        writer.string(Base64URL.encode(session.bytes))
        writer.optional(thumbprint.map { Base64URL.encode($0.bytes) })
        writer.optional(key) { $0.key($1) }
        return writer
    }

    /// The beginning of the record of a login that steps a session up.
    struct Beginning {
        var reader: RecordReader
        let session: Digest
        let thumbprint: Digest?
        let key: ProofKeyPair?
    }

    /// Reads the part that `begin` wrote; nil for the record of a login that makes a session.
    static func beginning(_ bytes: [UInt8]) throws(RecordFailure) -> Beginning? {
        guard bytes.first == format else { return nil }
        var reader = try RecordReader(bytes, format: format)
        let session = Base64URL.decode(try reader.string()).flatMap(Digest.init)
        let text = try reader.optionalString()
        let thumbprint = text.flatMap { Base64URL.decode($0) }.flatMap(Digest.init)
        guard let session, (text == nil) == (thumbprint == nil) else { throw .malformed }
        let key = try reader.flag() ? try reader.key() : nil
        return Beginning(reader: reader, session: session, thumbprint: thumbprint, key: key)
    }

    /// Appends the demand after the members that an older release reads.
    static func write(_ demand: StepUpDemand?, to writer: inout RecordWriter) {
        guard let demand else { return }
        writer.strings(demand.contextClasses)
        writer.optional(demand.maximumAge)
    }

    /// Reads the demand that `write` wrote.
    static func demand(_ reader: inout RecordReader) throws(RecordFailure) -> StepUpDemand {
        StepUpDemand(contextClasses: try reader.strings(), maximumAge: try reader.optionalInteger())
    }
}
