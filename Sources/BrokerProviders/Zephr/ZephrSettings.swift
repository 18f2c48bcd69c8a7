package import Broker

/// The settings that only `kind: zephr` has.
///
/// Most of these settings exist because Zephr's documents leave the behaviour open.
package struct ZephrSettings: Sendable {
    /// `start`: whether the app opens the start URL itself, or the broker fetches the start URL and returns the address that
    /// the answer names.
    ///
    /// The answer has the address in the field `Location`, or in the member `location` of a JSON object.
    package enum Start: String, Sendable { case redirect, fetch }
    /// `identifiers`: the contents of a registration's `identifiers`.
    package enum Identifiers: String, Sendable { case empty, omit, send }
    /// `fields`: the source of the required attributes.
    package enum Fields: String, Sendable { case configured, schema }

    /// `base_url`: the site's own domain, without a final slash.
    package var baseURL: EndpointURL?
    /// `social_providers`: the slugs that an app may name.
    package var socialProviders: [String]
    /// The setting `start`.
    package var start: Start
    /// `start_paths`: the path for each platform (`ios`, `android`, `web`); `{provider}` is the slug.
    package var startPaths: [String: String]
    /// `client_types`: the `client_type` parameter for each platform that needs one.
    package var clientTypes: [String: String]
    /// `start_parameters`: further parameters that each start URL contains.
    package var startParameters: [(name: String, value: String)]
    /// The setting `paths: {account, register, logout, schema, anonymous_session}`.
    package var paths: ZephrPaths
    /// The setting `cookie_name`.
    package var cookieName: String
    /// `status_map`: the meaning of the register call's HTTP statuses.
    package var statusMap: [Int: ZephrRegisterStatus]
    /// The setting `required_attributes`.
    package var requiredAttributes: [RegistrationField]
    /// The setting `fields`.
    package var fields: Fields
    /// The setting `identifiers`.
    package var identifiers: Identifiers
    /// `attribute_defaults`: values for attributes that the app leaves out.
    package var attributeDefaults: [(name: String, value: JSONValue)]
    /// `session_lifetime`: the lifetime of a session whose cookie names no expiry.
    package var sessionLifetime: Duration

    package init(
        baseURL: EndpointURL?, socialProviders: [String], start: Start = .redirect,
        startPaths: [String: String] = [:], clientTypes: [String: String] = ["ios": "ios", "android": "android"],
        startParameters: [(name: String, value: String)] = [], paths: ZephrPaths = ZephrPaths(),
        cookieName: String = "blaize_session", statusMap: [Int: ZephrRegisterStatus] = [:],
        requiredAttributes: [RegistrationField] = [], fields: Fields = .configured,
        identifiers: Identifiers = .empty, attributeDefaults: [(name: String, value: JSONValue)] = [],
        sessionLifetime: Duration = .seconds(30 * 86_400)
    ) {
        self.baseURL = baseURL
        self.socialProviders = socialProviders
        self.start = start
        self.startPaths = startPaths
        self.clientTypes = clientTypes
        self.startParameters = startParameters
        self.paths = paths
        self.cookieName = cookieName
        self.statusMap = statusMap
        self.requiredAttributes = requiredAttributes
        self.fields = fields
        self.identifiers = identifiers
        self.attributeDefaults = attributeDefaults
        self.sessionLifetime = sessionLifetime
    }
}
