# Adds clients whose sessions belong to a key of the device to coatcheck.yaml, for the tests of clients/.
/client_id: hosted-app,/a\
      bound: {client_id: bound-app, auth: none, redirect_uris: ["com.example.bound:/cb"], scope: openid email offline_access, hand_out_access_token: true, binding: {mode: enforce, pass: 60s}}\
      bound-bearer: {client_id: bound-bearer-app, auth: none, redirect_uris: ["com.example.boundbearer:/cb"], scope: openid email offline_access, transport: bearer, hand_out_access_token: true, binding: {mode: enforce, pass: 60s}}
/client_id: oauth2-app,/a\
      proving: {client_id: proving-app, auth: none, redirect_uris: ["com.example.proving:/cb"], scope: profile email, transport: bearer, binding: {mode: enforce, evidence: proof}}
# Adds children to two existing clients.
s#\(client_id: \(ios\|android\)-app, auth: none, \)#\1children: {widget: {upstreams: [api, guarded]}, web: {origins: ["@BROKER@"]}}, #
# Adds an API whose calls require a stronger sign-in.
/^upstreams:/a\
  guarded: {base_url: "@SANDBOX@/api", provider: oidc, allow: ["ANY /**"], require: [{allow: "GET /private/echo", max_age: 5m}, {allow: "POST /private/echo", acr: [mfa, phr]}, {allow: "PUT /private/echo", acr: [phr]}]}\
  watched: {base_url: "@SANDBOX@/api", provider: oidc, allow: ["ANY /**"], require: [{allow: "ANY /echo", presence: true}, {allow: "ANY /private/echo", presence: true, max_age: 5m}]}
