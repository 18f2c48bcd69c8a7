/// A session's last step-up, as recorded in the session's sealed facts.
///
/// The record decides which of two step-ups was answered later, and names the grant of the session's refresh token (decision
/// 70).
package struct StepUpNote: Sendable, Equatable {
    /// The session version that this step-up produced.
    package let version: Int64
    /// The time of the provider's token response, by the clock of the process that stored it.
    package let answeredAt: WallTime
    /// The grant that this or an older step-up began; nil if the session still has the grant of its first sign-in.
    package let grant: Grant?

    /// A grant that replaced another grant in a step-up.
    package struct Grant: Sendable, Equatable {
        /// The digest of the refresh token in the provider's answer.
        package let refreshToken: Digest
        /// The grant's first token version.
        package let tokenVersion: Int64
        /// The outbox row that revokes the former grant.
        package let former: Digest
    }

    package init(version: Int64, answeredAt: WallTime, grant: Grant?) {
        self.version = version
        self.answeredAt = answeredAt
        self.grant = grant
    }

    /// The note in a record that has a further member, and lacks a step-up.
    static let none = StepUpNote(version: -1, answeredAt: WallTime(milliseconds: 0), grant: nil)

    /// Returns whether this step-up was answered after another step-up.
    ///
    /// `version` is the session's version when the code of the other step-up was sent. If this step-up was already stored then,
    /// it was answered first, regardless of any clock. The times decide only between two step-ups that overlap.
    func isLater(than answeredAt: WallTime, ofCodeSentAt version: Int64) -> Bool {
        self.version > version && self.answeredAt > answeredAt
    }
}

extension StepUpNote {
    func write(to writer: inout RecordWriter) {
        writer.integer(version)
        writer.integer(answeredAt.milliseconds)
        writer.optional(grant) { writer, grant in
            writer.string(Base64URL.encode(grant.refreshToken.bytes))
            writer.integer(grant.tokenVersion)
            writer.string(Base64URL.encode(grant.former.bytes))
        }
    }

    /// Reads the step-up from a record.
    init(_ reader: inout RecordReader) throws(RecordFailure) {
        version = try reader.integer()
        answeredAt = WallTime(milliseconds: try reader.integer())
        guard try reader.flag() else {
            grant = nil
            return
        }
        let token = Base64URL.decode(try reader.string()).flatMap(Digest.init)
        let tokenVersion = try reader.integer()
        let former = Base64URL.decode(try reader.string()).flatMap(Digest.init)
        guard let token, let former else { throw .malformed }
        grant = Grant(refreshToken: token, tokenVersion: tokenVersion, former: former)
    }
}
