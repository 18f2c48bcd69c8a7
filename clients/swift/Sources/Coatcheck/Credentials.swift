import Foundation

/// The credentials of a device.
///
/// The credentials are the session's secret and pass, the secret of a started login, and the secrets of sessions to end at
/// the broker. The last session object is stored with the credentials, for display.
public struct Credentials: Codable, Sendable, Hashable {
    /// The transport of a client's credentials, as configured at the broker.
    public enum Transport: String, Codable, Sendable { case cookie, bearer }

    /// A session that was signed out on this device, and that the broker still has to end.
    public struct Ending: Codable, Sendable, Hashable {
        /// The session token.
        public let session: String
        /// The token's transport.
        public let transport: Transport
    }

    /// The evidence of a bound session, valid for some minutes.
    public struct Pass: Codable, Sendable, Hashable {
        /// The pass.
        public let value: String
        /// The arrival time of the pass, by the device's clock.
        public let received: Date
        /// The lifetime of the pass, in seconds.
        public let lifetime: Double

        /// Creates a pass that arrived at a time.
        public init(value: String, received: Date, lifetime: Double) {
            (self.value, self.received, self.lifetime) = (value, received, lifetime)
        }

        /// Whether the pass needs a renewal.
        ///
        /// It does in the last minute of its lifetime (or the last quarter, if that is shorter), and after the device's clock
        /// was set back.
        func isDue(at time: Date) -> Bool {
            let age = time.timeIntervalSince(received)
            return age < 0 || age > lifetime - min(60, lifetime / 4)
        }
    }

    /// The session token.
    public var session: String?
    /// A bound session's pass.
    public var pass: Pass?
    /// The login token, which has to survive a restart of the app until the session exists.
    public var login: String?
    /// The ID of the login that the login token belongs to.
    public var loginID: String?
    /// The transport of the session's secret.
    public var transport = Transport.cookie
    /// The session of the last user, for display without a network.
    public var lastSession: Session?
    /// The sessions that the broker still has to end, at most the newest eight.
    public var endings: [Ending] = []

    /// Creates empty credentials.
    public init() {}

    /// Reads credentials that this or another version of the app stored.
    ///
    /// The session token, the login token and the transport must be readable. Any other unreadable member is left out, so that
    /// the user stays signed in.
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

    /// Whether there is nothing to store.
    var isEmpty: Bool { self == Credentials() || (session == nil && login == nil && endings.isEmpty) }

    /// Deletes the user's data, and adds the session to those that the broker still has to end.
    mutating func signOut() {
        if let session { endings = (endings + [Ending(session: session, transport: transport)]).suffix(8) }
        session = nil
        pass = nil
        login = nil
        loginID = nil
        lastSession = nil
    }
}
