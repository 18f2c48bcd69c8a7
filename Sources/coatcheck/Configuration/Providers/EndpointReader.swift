import Broker
import BrokerProviders

/// Reads `endpoints`.
enum EndpointReader {
    /// Lays the endpoints that the file names over what is there.
    static func read(_ section: ConfigSection, into endpoints: inout EndpointSettings) {
        func read(_ key: String, _ path: WritableKeyPath<EndpointSettings, EndpointURL?>) {
            if let url = section.endpoint(key) { endpoints[keyPath: path] = url }
        }
        read("authorization", \.authorization)
        read("token", \.token)
        read("refresh", \.refresh)
        read("recovery", \.recovery)
        read("migration", \.migration)
        read("userinfo", \.userinfo)
        read("jwks", \.jwks)
        if let url = section.endpoint("revocation") { endpoints.revocation = url.text }
        read("introspection", \.introspection)
        read("end_session", \.endSession)
        read("par", \.par)
        if let url = section.endpoint("api") { endpoints.api = url.withoutSlash }
    }
}
