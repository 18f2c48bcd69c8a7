/// Is the endpoints that the file fixes or overrides for a provider.
struct EndpointSection: Sendable {
    var authorization: String?
    var token: String?
    var refresh: String?
    var recovery: String?
    var userinfo: String?
    var jwks: String?
    var revocation: String?
    var introspection: String?
    var endSession: String?
    var par: String?
    var api: String?

    init(_ section: ConfigSection) {
        authorization = section.endpoint("authorization")
        token = section.endpoint("token")
        refresh = section.endpoint("refresh")
        recovery = section.endpoint("recovery")
        userinfo = section.endpoint("userinfo")
        jwks = section.endpoint("jwks")
        revocation = section.endpoint("revocation")
        introspection = section.endpoint("introspection")
        endSession = section.endpoint("end_session")
        par = section.endpoint("par")
        api = section.endpoint("api")
    }
}
