import Foundation

/// What a device keeps: the session's secret, that of a login under way, and those of sessions that are still to be ended.
public struct Credentials: Codable, Sendable, Hashable {
    /// How a client's credentials travel, as the broker is configured.
    public enum Transport: String, Codable, Sendable { case cookie, bearer }

    /// A session that was signed out here while the broker could not be told.
    public struct Ending: Codable, Sendable, Hashable {
        /// The session token.
        public let session: String
        /// How it travels.
        public let transport: Transport
    }

    /// The session token.
    public var session: String?
    /// The login token: it has to survive until the session is there, over a restart of the app, too.
    public var login: String?
    /// Which login it is of.
    public var loginID: String?
    /// How the session's secret travels.
    public var transport = Transport.cookie
    /// Who was signed in last, to be shown without a network.
    public var lastSession: Session?
    /// The sessions that the broker has still to be told to end, the newest eight.
    public var endings: [Ending] = []

    /// Creates empty credentials.
    public init() {}

    /// Reads what this or another version of the app kept: only the secrets decide who is signed in.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        session = try values.decodeIfPresent(String.self, forKey: .session)
        login = try values.decodeIfPresent(String.self, forKey: .login)
        loginID = try? values.decodeIfPresent(String.self, forKey: .loginID)
        transport = try values.decodeIfPresent(Transport.self, forKey: .transport) ?? .cookie
        lastSession = try? values.decodeIfPresent(Session.self, forKey: .lastSession)
        endings = (try? values.decodeIfPresent([Ending].self, forKey: .endings)) ?? []
    }

    private enum CodingKeys: String, CodingKey { case session, login, loginID, transport, lastSession, endings }

    /// Whether nothing is kept.
    var isEmpty: Bool { self == Credentials() || (session == nil && login == nil && endings.isEmpty) }

    /// Forgets the user, and notes the session as one to end.
    mutating func signOut() {
        if let session { endings = (endings + [Ending(session: session, transport: transport)]).suffix(8) }
        session = nil
        login = nil
        loginID = nil
        lastSession = nil
    }
}
