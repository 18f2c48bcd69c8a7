import Foundation

/// The credentials of a device: the session's secret, that of a login under way, and those of sessions that are still
/// to be ended.
public struct Credentials: Codable, Sendable, Hashable {
    /// The way a client's credentials travel, as the broker is configured.
    public enum Transport: String, Codable, Sendable { case cookie, bearer }

    /// A session that was signed out here while the broker could not be told.
    public struct Ending: Codable, Sendable, Hashable {
        /// The session token.
        public let session: String
        /// The way in which it travels.
        public let transport: Transport
    }

    /// A bound session's evidence for some minutes.
    public struct Pass: Codable, Sendable, Hashable {
        /// The pass.
        public let value: String
        /// The time at which it came, by the device's clock.
        public let received: Date
        /// Its life, in seconds.
        public let lifetime: Double

        /// Creates a pass that came at a time.
        public init(value: String, received: Date, lifetime: Double) {
            (self.value, self.received, self.lifetime) = (value, received, lifetime)
        }

        /// Whether it is time for another: in the last minute or quarter of its life, and after a clock was set back.
        func isDue(at time: Date) -> Bool {
            let age = time.timeIntervalSince(received)
            return age < 0 || age > lifetime - min(60, lifetime / 4)
        }
    }

    /// The session token.
    public var session: String?
    /// A bound session's pass.
    public var pass: Pass?
    /// The login token: it has to survive until the session is there, over a restart of the app, too.
    public var login: String?
    /// The id of the login that it is of.
    public var loginID: String?
    /// The way the session's secret travels.
    public var transport = Transport.cookie
    /// The user who was signed in last, to be shown without a network.
    public var lastSession: Session?
    /// The sessions that the broker has still to be told to end, the newest eight.
    public var endings: [Ending] = []

    /// Creates empty credentials.
    public init() {}

    /// Reads what this or another version of the app kept: only the secrets decide who is signed in.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        session = try values.decodeIfPresent(String.self, forKey: .session)
        pass = try? values.decodeIfPresent(Pass.self, forKey: .pass)
        login = try values.decodeIfPresent(String.self, forKey: .login)
        loginID = try? values.decodeIfPresent(String.self, forKey: .loginID)
        transport = try values.decodeIfPresent(Transport.self, forKey: .transport) ?? .cookie
        lastSession = try? values.decodeIfPresent(Session.self, forKey: .lastSession)
        endings = (try? values.decodeIfPresent([Ending].self, forKey: .endings)) ?? []
    }

    private enum CodingKeys: String, CodingKey { case session, pass, login, loginID, transport, lastSession, endings }

    /// Whether nothing is kept.
    var isEmpty: Bool { self == Credentials() || (session == nil && login == nil && endings.isEmpty) }

    /// Forgets the user, and notes the session as one to end.
    mutating func signOut() {
        if let session { endings = (endings + [Ending(session: session, transport: transport)]).suffix(8) }
        session = nil
        pass = nil
        login = nil
        loginID = nil
        lastSession = nil
    }
}
