@testable import coatcheck

/// Loads configurations from text, with a given environment and given files.
enum ConfigurationFixture {
    static let keyFile = "keys.json"

    /// A certificate for localhost and *.example.com, valid for a hundred years from 2026-11-22.
    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBpTCCAUqgAwIBAgIUXKEoOUPHJSQo2bcvEM5xHw3sfaMwCgYIKoZIzj0EAwIw
        FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjE1MzE0MloYDzIxMjYxMDI5
        MTUzMTQyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
        PQMBBwNCAAS0Rd8GemOlLMFGhgK5ioA0m3E6iiJUJ/vcU5QoipRZ9CksemObuEVz
        Mibe//PuZtFv7G/1a3ZtBYZcgrlrV3Xlo3gwdjAdBgNVHQ4EFgQUe01N3EIHiz0X
        5CwfFDEH+vGfuGswHwYDVR0jBBgwFoAUe01N3EIHiz0X5CwfFDEH+vGfuGswDwYD
        VR0TAQH/BAUwAwEB/zAjBgNVHREEHDAagglsb2NhbGhvc3SCDSouZXhhbXBsZS5j
        b20wCgYIKoZIzj0EAwIDSQAwRgIhAIUY+RrcCd9dtuvkwIijPdZE12eEQHcRT7zd
        RN95xh9uAiEA/uzm5NUMrY5IbzdQWNoUYpzEFz8u68OsMUbb53eUJG0=
        -----END CERTIFICATE-----
        """
    static let certificateKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxKCT+F4NmwxQO25X
        +N8q3pqcr7iKvZKEzoL26TAZkNyhRANCAAS0Rd8GemOlLMFGhgK5ioA0m3E6iiJU
        J/vcU5QoipRZ9CksemObuEVzMibe//PuZtFv7G/1a3ZtBYZcgrlrV3Xl
        -----END PRIVATE KEY-----
        """

    /// A private key that fits none of the fixture's certificates.
    static let otherKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgRLIhsy9NQNMxhOap
        Mk2omJDcY3qvIs/druIvWJdz+9uhRANCAATGpIJDy7sKfEojlKr17pP3TuvCa8pY
        QZyOk2cSePj2B+q/8HrYuw0yq3hBSyR74S0zk6CMzumMleXUblzKique
        -----END PRIVATE KEY-----
        """

    static let sources = ConfigSources(
        environment: { name in
            switch name {
            case "EXAMPLE_CLIENT_SECRET", "CLEVER_CLIENT_SECRET", "PROXY_CREDENTIALS": "zQ8vN2kLr5TwX7yB3mHd"
            case "SHORT_SECRET": "abc"
            case "SPACED_SECRET": "zQ8vN2kLr5 wX7yB3mHd "
            case "PLACEHOLDER_SECRET": "your-client-secret-here"
            default: nil
            }
        },
        readFile: { path throws(FileFault) in
            switch path {
            case keyFile, "open-keys.json": Array("{}".utf8)
            case "google-client-secret": Array("zQ8vN2kLr5TwX7yB3mHd\n".utf8)
            case "apple-key.p8", "service-key.pem":
                Array("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n".utf8)
            case "service-cert.pem": Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)
            case "fullchain.pem", "example-client.pem", "example-ca.pem", "company-ca.pem":
                Array(certificate.utf8)
            case "privkey.pem", "example-client.key", "open-client.key": Array(certificateKey.utf8)
            case "other-client.key": Array(otherKey.utf8)
            case "broken-ca.pem": Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)
            case "not-a-key.pem", "not-a-certificate.pem": Array("hello\n".utf8)
            default: throw .missing
            }
        },
        isOpenToOthers: { $0.hasPrefix("open-") }, directory: "")

    /// The smallest valid configuration.
    ///
    /// Tests replace parts of its text.
    static let minimal = """
        server:
          public_url: https://auth.example.com
        keys:
          file: keys.json
        providers:
          example:
            kind: oidc
            issuer: https://id.example.com
            clients:
              ios:
                client_id: mobile-app
                auth: none
                redirect_uris: ["com.example.app:/oauth2redirect"]
        """

    static func load(_ text: String) throws(ConfigurationFailure) -> Configuration {
        try Configuration.load(text: text, sources: sources)
    }

    /// Returns the warnings of a configuration that loads, or the faults of one that does not.
    static func problems(_ text: String) -> [ConfigProblem] {
        do throws(ConfigurationFailure) {
            return try load(text).warnings
        } catch {
            return error.problems
        }
    }

    static func errors(_ text: String) -> [ConfigProblem] { problems(text).filter { $0.severity == .error } }
}
