use std::path::Path;
use std::time::Duration;

use rcgen::{DnValue, SanType};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::testing::{Authority, Issued};
use super::*;

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")
}

/// A server that shows `own`, and wants a certificate of `clients` if that is given.
fn server(own: &Issued, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().expect("ring");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&authority.pem)).expect("a CA");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a CA");
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("PEM");
    Arc::new(builder.with_single_cert(vec![certificate(&own.certificate)], key).expect("they belong together"))
}

/// Makes a session and sends a byte each way. The name that the library is told is another one than is checked.
async fn talk(client: &Arc<Client>, server: &Arc<ServerConfig>) -> Result<(), String> {
    let (near, far) = tokio::io::duplex(64 << 10);
    let acceptor = TlsAcceptor::from(server.clone());
    let served = tokio::spawn(async move {
        let mut stream = acceptor.accept(far).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.shutdown().await
    });
    let name = ServerName::try_from("told.example").expect("a name");
    let connector = TlsConnector::from(Arc::new(client.config()?));
    let talked = async {
        let mut stream = connector.connect(name, near).await?;
        stream.write_u8(7).await?;
        stream.flush().await?;
        stream.read_u8().await
    };
    let talked = talked.await.map_err(|error| error.to_string());
    let _ = served.await.expect("no panic");
    talked.map(|byte| assert_eq!(byte, 7))
}

fn block(name: &str) -> ClientTls {
    ClientTls {
        enabled: true,
        validation: Validation::CommonName(name.to_owned()),
        trust_certs: Vec::new(),
        client_auth: None,
        protocols: None,
    }
}

fn trusting(folder: &TempDir, authority: &Authority, name: &str) -> ClientTls {
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &authority.pem).expect("the folder is writable");
    ClientTls { trust_certs: vec![file], ..block(name) }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn auth(folder: &Path) -> Option<ClientAuth> {
    Some(ClientAuth {
        cert_path: folder.join("cert.pem"),
        key_path: folder.join("key.pem"),
        intermediate_certs_path: None,
    })
}

#[tokio::test]
async fn the_servers_certificate_must_be_for_the_common_name_and_of_a_trusted_ca() {
    let (authority, other, folder) = (Authority::new(), Authority::new(), folder());
    let own = authority.issue(|params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, DnValue::Utf8String("consul".to_owned()));
        params.subject_alt_names.push(SanType::IpAddress([192, 0, 2, 1].into()));
    });
    let server = server(&own, None);
    for name in ["localhost", "192.0.2.1"] {
        let client = Client::new(trusting(&folder, &authority, name));
        assert_eq!(talk(&client, &server).await, Ok(()), "{name}");
        assert_eq!(client.asked_name(), Some(name).filter(|name| *name == "localhost"));
    }
    let wrong_name = Client::new(trusting(&folder, &authority, "consul.example"));
    assert!(talk(&wrong_name, &server).await.expect_err("another name").contains("not valid for name"));
    let no_name = Client::new(trusting(&folder, &authority, "a b"));
    assert!(talk(&no_name, &server).await.expect_err("no name").contains("commonName: a b"));
    let wrong_ca = Client::new(trusting(&folder, &other, "localhost"));
    assert!(talk(&wrong_ca, &server).await.expect_err("another CA").contains("invalid peer certificate"));
    let unchecked = Client::new(ClientTls { validation: Validation::Off { server_name: None }, ..block("") });
    assert_eq!(talk(&unchecked, &server).await, Ok(()));
}

#[tokio::test]
async fn a_client_shows_its_certificate_to_servers_that_want_one() {
    let (authority, folder) = (Authority::new(), folder());
    authority.issue(|_| ()).write_to(folder.path());
    let server = server(&authority.issue(|_| ()), Some(&authority));
    let with = ClientTls { client_auth: auth(folder.path()), ..trusting(&folder, &authority, "localhost") };
    assert_eq!(talk(&Client::new(with), &server).await, Ok(()));
    let without = Client::new(trusting(&folder, &authority, "localhost"));
    assert!(talk(&without, &server).await.expect_err("it wants one").contains("CertificateRequired"));
}

#[tokio::test]
async fn versions_are_those_of_the_block() {
    let (authority, folder) = (Authority::new(), folder());
    let server = server(&authority.issue(|_| ()), None);
    for (protocols, good) in [(vec!["TLSv1.2"], true), (vec!["TLSv1", "TLSv1.3"], true), (vec!["TLSv1.1"], false)] {
        let protocols = Some(protocols.into_iter().map(str::to_owned).collect());
        let client = Client::new(ClientTls { protocols, ..trusting(&folder, &authority, "localhost") });
        assert_eq!(talk(&client, &server).await.is_ok(), good);
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_come_later_or_change_are_used_for_new_sessions() {
    let (authority, other, folder) = (Authority::new(), Authority::new(), folder());
    let server = server(&authority.issue(|_| ()), None);
    let file = folder.path().join("ca.pem");
    let client = Client::new(ClientTls { trust_certs: vec![file.clone()], ..block("localhost") });
    let _renewal = client.keep_current();
    let refused = talk(&client, &server).await.expect_err("there is no file");
    assert!(refused.contains("trustCertsBundle") && refused.contains("ca.pem: cannot be read"), "{refused}");
    let until = async |good: bool| {
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            if talk(&client, &server).await.is_ok() == good {
                return;
            }
        }
        panic!("nothing changed within 50 s");
    };
    std::fs::write(&file, &authority.pem).expect("the folder is writable");
    until(true).await;
    std::fs::write(&file, &other.pem).expect("the folder is writable");
    until(false).await;
    std::fs::write(&file, &authority.pem).expect("the folder is writable");
    until(true).await;
    std::fs::write(&file, "nonsense").expect("the folder is writable");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(talk(&client, &server).await, Ok(()), "what cannot be used changes nothing");
}
