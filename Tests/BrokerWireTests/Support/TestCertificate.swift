import NIOSSL

@testable import BrokerWire

/// A self-signed certificate.
enum TestCertificate {
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
    static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxKCT+F4NmwxQO25X
        +N8q3pqcr7iKvZKEzoL26TAZkNyhRANCAAS0Rd8GemOlLMFGhgK5ioA0m3E6iiJU
        J/vcU5QoipRZ9CksemObuEVzMibe//PuZtFv7G/1a3ZtBYZcgrlrV3Xl
        -----END PRIVATE KEY-----
        """
    static let now: Int64 = 1_795_400_000

    /// Returns the TLS settings of a listener with this certificate.
    static func served() throws -> ServerTLS {
        try ServerTLS(certificate: Array(certificate.utf8), key: Array(key.utf8), now: now)
    }

    /// Returns the TLS context of a client that accepts any certificate.
    static func client(_ configure: (inout TLSConfiguration) -> Void = { _ in }) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        configure(&configuration)
        return try NIOSSLContext(configuration: configuration)
    }
}
