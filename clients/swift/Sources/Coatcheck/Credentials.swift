import Foundation

/// What a device keeps: the session's secret, and that of a login under way.
public struct Credentials: Codable, Sendable, Hashable {
    /// How a client's credentials travel, as the broker is configured.
    public enum Transport: String, Codable, Sendable { case cookie, bearer }

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

    /// Creates empty credentials.
    public init() {}
}
